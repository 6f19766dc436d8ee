"""Layouts of encodings against Triton's own conversion, and against recorded ones."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dialects.layouts.strategies import DISTRIBUTED, MEMORY, Case
from tests.dialects.layouts.triton_layouts import LayoutOracle
from xttir.dialects.context import make_context
from xttir.dialects.layouts.to_linear import linear_layout
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
    ours = linear_layout(attribute(case.encoding), case.shape)
    assert layouts.layout(case.encoding, case.shape) == ours
