"""Layouts of results against Triton's verdict on random modules."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dialects.layouts.modules import OPS, Case
from tests.dialects.triton_oracle import Oracle
from xttir.diagnostics import InputError
from xttir.frontends.mlir import parse_module

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def accepted(text: str) -> bool:
    try:
        parse_module(text)
    except InputError:
        return False
    return True


@pytest.mark.parametrize("op", OPS)
@settings(max_examples=15, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_as_triton(oracle: Oracle, op: str, data: st.DataObject) -> None:
    case: Case = data.draw(OPS[op])
    assert accepted(case.text) == (oracle.parse(case.text) is not None), case.text
