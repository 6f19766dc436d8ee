"""Layouts of encodings against Triton's own conversion, and against recorded ones."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dialects.layouts.record import FILE
from tests.dialects.layouts.strategies import DISTRIBUTED, MEMORY, Case
from tests.dialects.layouts.triton_layouts import LayoutOracle
from xttir.dialects.context import make_context
from xttir.dialects.layouts.linear_layout import LinearLayout
from xttir.dialects.layouts.to_linear import layout_with_copies, linear_layout
from xttir.dialects.syntax.parser import TTParser

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
FAMILIES = DISTRIBUTED | MEMORY


@pytest.fixture(scope="module")
def layouts() -> LayoutOracle:
    return LayoutOracle()


CONTEXT = make_context()


def attribute(text: str):
    return TTParser(CONTEXT, text).parse_attribute()


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_as_triton(layouts: LayoutOracle, family: str, data: st.DataObject) -> None:
    case: Case = data.draw(FAMILIES[family])
    convert = linear_layout if layouts.release >= (3, 9) else layout_with_copies
    ours = convert(attribute(case.encoding), case.shape)
    assert layouts.layout(case.encoding, case.shape) == ours


def recorded() -> list[dict]:
    """What `record` wrote: layouts that Triton 3.9 made."""
    return json.loads(FILE.read_text())


@pytest.mark.parametrize("family", FAMILIES)
def test_as_recorded(family: str) -> None:
    entries = [entry for entry in recorded() if entry["family"] == family]
    assert len(entries) >= 10
    for entry in entries:
        ours = linear_layout(attribute(entry["encoding"]), tuple(entry["shape"]))
        ins = tuple((name, tuple(map(tuple, many))) for name, many in entry["ins"])
        outs = tuple((name, bits) for name, bits in entry["outs"])
        assert ours == LinearLayout(ins, outs), entry["encoding"]
