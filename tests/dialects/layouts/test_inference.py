"""Layouts of results against Triton's verdict on random modules."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType

from tests.dialects.layouts.modules import OPS, Case
from tests.dialects.triton_oracle import Oracle
from xttir.diagnostics import InputError
from xttir.dialects.layouts.to_linear import layout_of, layout_with_copies
from xttir.frontends.mlir import parse_module

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def accepted(text: str) -> bool:
    try:
        parse_module(text)
    except InputError:
        return False
    return True


def releases_differ(text: str) -> bool:
    """Whether a type has registers that hold copies in one release of Triton only."""
    for op in parse_module(text, verify=False).walk():
        for type_ in (v.type for v in (*op.operands, *op.results)):
            if isinstance(type_, TensorType):
                other = layout_with_copies(type_.encoding, tuple(type_.get_shape()))
                if other != layout_of(type_):
                    return True
    return False


@pytest.mark.parametrize("op", OPS)
@settings(max_examples=15, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_as_triton(oracle: Oracle, op: str, data: st.DataObject) -> None:
    """Modules of both releases are accepted, so more than either of them accepts."""
    case: Case = data.draw(OPS[op])
    ours, theirs = accepted(case.text), oracle.parse(case.text) is not None
    if oracle.is_3_9 and not releases_differ(case.text):
        assert ours == theirs, case.text
    else:
        assert ours or not theirs, case.text
