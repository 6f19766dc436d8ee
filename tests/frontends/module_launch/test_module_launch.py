"""Launches of modules: signatures, arguments in words, sizes that are found, data in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xttir.diagnostics import InputError, Unsupported
from xttir.frontends.launch_description import PointerParam, ScalarParam, from_dict
from xttir.frontends.mlir import parse_module
from xttir.frontends.module_launch import (
    bind,
    describe,
    find_function,
    find_sizes,
    parameters,
    split_argument,
)
from xttir.interp.executor import run_launch
from xttir.policy import RunPolicy

ADD = Path(__file__).parents[2] / "data" / "modules" / "add.ttir"

GATHER = """
tt.func public @gather(%index: !tt.ptr<i32>, %x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
  %i = tt.load %index : !tt.ptr<i32>
  %c1000 = arith.constant 1000 : i32
  %far = arith.muli %i, %c1000 : i32
  %p = tt.addptr %x, %far : !tt.ptr<f32>, i32
  %v = tt.load %p : !tt.ptr<f32>
  tt.store %out, %v : !tt.ptr<f32>
  tt.return
}
"""


@pytest.fixture
def add():
    return parse_module(ADD.read_text(), str(ADD))


def run(module, description, **kwargs):
    bound = bind(module, description, **kwargs)
    return bound, run_launch(bound.launch, RunPolicy())


def test_the_kernel_is_found_and_named(add) -> None:
    assert find_function(add).sym_name.data == "add"
    assert [p.name for p in parameters(find_function(add))] == ["x", "y", "out", "n"]
    with pytest.raises(InputError, match="no function 'twise', did you mean 'twice'"):
        find_function(add, "twise")


def test_names_of_the_source_are_preferred() -> None:
    text = 'tt.func @k(%arg0: i32 loc("count")) {\n  tt.return\n}\n'
    assert parameters(find_function(parse_module(text)))[0].name == "count"


def test_sizes_are_what_the_kernel_accesses(add) -> None:
    described = describe(add, {"n": "100"}, grid=(2, 1, 1))
    assert described.open == {"x", "y", "out"}
    found = find_sizes(add, described.description, described.open)
    assert {name: spec.shape for name, spec in found.tensors.items()} == {
        "x": (100,),
        "y": (100,),
        "out": (128,),
    }
    bound, result = run(add, found)
    assert not result.faults
    x, y, out = (bound.tensor(name) for name in ("x", "y", "out"))
    assert np.array_equal(out[:100], x + y)
    assert not out[100:].any()


def test_a_size_that_the_data_decides_is_found() -> None:
    module = parse_module(GATHER)
    described = describe(module, {"index": "70:i32[1]"})
    found = find_sizes(module, described.description, described.open)
    assert found.tensors["x"].shape == (70_001,)
    assert not run(module, found)[1].faults


def test_a_size_beyond_reason_is_an_error() -> None:
    module = parse_module(GATHER)
    described = describe(module, {"index": "1000000:i32[1]"})
    with pytest.raises(InputError, match="no size found for `x`"):
        find_sizes(module, described.description, described.open)


def test_the_same_seed_gives_the_same_launch(add) -> None:
    first, second, third = (describe(add, seed=seed).description for seed in (1, 1, 2))
    assert first.params == second.params
    assert first.params != third.params
    assert 1 <= first.params[3].value <= 128  # type: ignore[union-attr]


def test_divisibility_is_kept() -> None:
    text = "tt.func @k(%n: i32 {tt.divisibility = 16 : i32}) {\n  tt.return\n}\n"
    values = [
        describe(parse_module(text), seed=s).description.params[0].value  # type: ignore[union-attr]
        for s in range(8)
    ]
    assert all(v and v % 16 == 0 for v in values)
    assert len(set(values)) > 1


def test_words_for_arguments(add) -> None:
    given = {"x": "arange:[8]", "1": "2.5:f32[8]", "arg2": "empty:[8]", "n": "0x8"}
    description = describe(add, given).description
    bound = bind(add, description)
    assert bound.tensor("x").tolist() == list(range(8))
    assert bound.tensor("y").tolist() == [2.5] * 8
    assert bound.storages["out"].valid is not None
    assert not bound.storages["out"].valid.any()
    assert description.params[3] == ScalarParam(description.params[3].type, 8)  # type: ignore[union-attr]


def test_null_strides_and_ranges(add) -> None:
    given = {"x": "null", "y": "random(1,2):f32[2,3]@[4,1]", "n": "-1"}
    description = describe(add, given).description
    assert description.params[0] == PointerParam(None)
    assert description.tensors["y"].strides == (4, 1)
    values = bind(add, description).tensor("y")
    assert ((values >= 1) & (values <= 2)).all()


def test_numpy_files(add, tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    np.savez(tmp_path / "more.npz", y=np.ones((2, 2), np.float32), z=np.zeros(1))
    given = {"x": f"{tmp_path}/x.npy", "y": f"{tmp_path}/more.npz:y"}
    bound = bind(add, describe(add, given).description)
    assert bound.tensor("x").tolist() == [0, 1, 2, 3]
    assert bound.tensor("y").shape == (2, 2)
    with pytest.raises(InputError, match=r"say '.*:NAME'"):
        describe(add, {"y": f"{tmp_path}/more.npz"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"m": "3"}, "no parameter 'm'"),
        ({"outt": "3"}, "did you mean 'out'"),
        ({"n": "x"}, "`n` .*'x' is not a number"),
        ({"n": "5000000000"}, "does not fit in 32 bits"),
        ({"x": "random:f16[4]"}, "2 bytes an element, not 4"),
        ({"x": "rendom:f32[4]"}, "no description of a tensor"),
        ({"x": "random:f32[4]@[1,2]"}, "1 dimensions but 2 strides"),
        ({"x": "missing.npy"}, "cannot read 'missing.npy'"),
    ],
)
def test_mistakes_are_named(add, given, message) -> None:
    with pytest.raises(InputError, match=message):
        describe(add, given)


def test_a_word_is_name_and_value() -> None:
    assert split_argument("n = 5") == ("n", "5")
    for word in ("n", "=5", "n="):
        with pytest.raises(InputError):
            split_argument(word)


def test_tensors_by_value_and_results(add) -> None:
    given = {"v": "21", "t": "1:[4]", "p": "arange:[4]"}
    description = describe(add, given, function="twice").description
    _, result = run(add, description)
    number, tensor = result.results
    assert number.tolist() == [42]
    assert tensor.tolist() == [[1, 2, 3, 4]]


def test_a_tensor_by_value_has_the_shape_of_its_parameter(add) -> None:
    with pytest.raises(InputError, match=r"has shape \[5\], not \[4\]"):
        describe(add, {"t": "[5]"}, function="twice")


def test_descriptors_bring_their_shape_and_strides() -> None:
    text = """
tt.func public @k(%d: !tt.tensordesc<4x8xf32>, %d0: i32, %d1: i32, %s0: i64, %s1: i64,
                  %out: !tt.ptr<i64>) {
  %c0 = arith.constant 0 : i32
  %v = tt.descriptor_load %d[%c0, %c0] : !tt.tensordesc<4x8xf32> -> tensor<4x8xf32>
  tt.descriptor_store %d[%d0, %c0], %v : !tt.tensordesc<4x8xf32>, tensor<4x8xf32>
  tt.store %out, %s0 : !tt.ptr<i64>
  tt.return
}
"""
    module = parse_module(text)
    described = describe(module, {"d": "arange:f32[6,16]"})
    found = find_sizes(module, described.description, described.open)
    bound, result = run(module, found)
    assert not result.faults
    assert bound.tensor("out").tolist() == [16]
    numbers = [p.value for p in found.params[1:5] if isinstance(p, ScalarParam)]
    assert numbers == [6, 16, 16, 1]


def test_a_parameter_that_nothing_can_be_passed_for() -> None:
    text = "tt.func @k(%p: !ttg.async.token) {\n  tt.return\n}\n"
    with pytest.raises(Unsupported):
        describe(parse_module(text))


def test_a_description_must_fit_the_function(add) -> None:
    few = from_dict({"grid": [1, 1, 1], "params": [{"i32": 1}]}, module=True)
    with pytest.raises(InputError, match="4 parameters, the launch 1"):
        bind(add, few)
    wrong = from_dict({"grid": [1, 1, 1], "params": [{"i32": 1}] * 4}, module=True)
    with pytest.raises(
        InputError, match=r"params\[0\]: parameter `x` is .*, the launch gives a num"
    ):
        bind(add, wrong)


def test_parameters_may_share_a_tensor(add) -> None:
    shared = {
        "grid": [1, 1, 1],
        "tensors": {"x": {"dtype": "f32", "shape": [64], "init": 1.0}},
        "params": [{"pointer": "x"}, {"pointer": "x"}, {"pointer": "x"}, {"i32": 64}],
    }
    bound, _ = run(add, from_dict(shared, module=True))
    assert bound.tensor("x").tolist() == [2.0] * 64
