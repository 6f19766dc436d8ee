"""`parse_module`: cached by text, verified, errors as InputError."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from xttir.diagnostics import InputError
from xttir.dialects.context import make_context
from xttir.frontends import mlir

TEXT = "tt.func @kernel(%n: i32) {\n  %0 = arith.addi %n, %n : i32\n  tt.return\n}\n"


def test_the_same_text_is_parsed_once() -> None:
    assert mlir.parse_module(TEXT, "a.ttir") is mlir.parse_module(TEXT, "a.ttir")
    # The name stands in locations, so it is part of the key.
    assert mlir.parse_module(TEXT, "a.ttir") is not mlir.parse_module(TEXT, "b.ttir")
    assert mlir.parse_module(TEXT + " ", "a.ttir") is not mlir.parse_module(TEXT, "a.ttir")


def test_ops_without_a_module_get_one() -> None:
    module = mlir.parse_module(TEXT)
    assert isinstance(module, ModuleOp)
    with pytest.raises(InputError, match="operation expected"):
        mlir.read_module(make_context(), TEXT, "m", implicit_module=False)


def test_an_error_is_not_kept() -> None:
    for _ in range(2):
        with pytest.raises(InputError) as error:
            mlir.parse_module("nonsense", "bad.ttir")
        assert str(error.value) == "bad.ttir:1:1: error: Operation nonsense is not registered"


def test_verification_can_be_left_out() -> None:
    text = """tt.func @f() {
  %0 = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<4xi32>
  tt.return
}"""
    with pytest.raises(InputError, match="size of the range"):
        mlir.parse_module(text)
    assert mlir.read_module(make_context(), text, "m", verify=False).body.ops


def test_locations_are_offered_here_too() -> None:
    module = mlir.parse_module(TEXT, "a.ttir")
    names = {op.name: mlir.location_of(op).line for op in module.walk()}
    assert names["arith.addi"] == 2
    assert [str(place) for place in mlir.locations_of(module)] == []


def test_a_module_read_without_verification_is_verified_when_asked() -> None:
    text = "tt.func @f(%x: i32) {\n  %y = arith.addi %x, %x : i32\n  tt.return %y : i32\n}\n"
    mlir.parse_module(text, verify=False)
    with pytest.raises(InputError):
        mlir.parse_module(text)
