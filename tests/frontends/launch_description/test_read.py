"""Reading of launch descriptions: what is right is read, what is wrong is named at its key."""

import json
from typing import Any

import jsonschema
import numpy as np
import pytest

from xttir.diagnostics import InputError
from xttir.frontends.launch_description import (
    BytesParam,
    PointerParam,
    ScalarParam,
    TensorMapParam,
    dump,
    from_dict,
    load,
    schema,
    to_dict,
)


def put(data: Any, path: str, value: Any) -> None:
    """Set the entry at `path` ("params.0.box"); `...` takes it away."""
    *way, last = [int(k) if k.isdigit() else k for k in path.split(".")]
    for key in way:
        data = data[key]
    if value is ...:
        del data[last]
    else:
        data[last] = value


def test_everything_is_read(data: dict[str, Any]) -> None:
    found = from_dict(data)
    assert (found.entry, found.capability, found.threads, found.blocks) == ("scale", 90, 128, 2)
    assert found.tensors["x"].strides == (64, 1)
    assert found.tensors["x"].size == 64 * 64 * 2
    assert found.tensors["index"].known
    assert not found.tensors["x"].known
    assert found.tensors_used() == ["x", "out"]
    map_, pointer, n, factor = found.params
    assert isinstance(map_, TensorMapParam)
    assert (map_.dims, map_.strides_bytes, map_.elem_strides) == ((64, 64), (128,), (1, 1))
    assert map_.dtype.name == "bf16"
    assert pointer == PointerParam("out")
    assert isinstance(n, ScalarParam)
    assert n.bits == b"\x08\0\0\0"
    assert isinstance(factor, ScalarParam)
    assert factor.bits == np.float32(0.5).tobytes()


def test_the_schema_agrees(data: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(data, schema())


@pytest.mark.parametrize("toml", [False, True])
def test_files(data: dict[str, Any], tmp_path: Any, toml: bool) -> None:
    if toml:
        file = tmp_path / "launch.toml"
        file.write_text(
            'entry = "scale"\ngrid = [2, 1, 1]\nblock = [128, 1, 1]\nparams = [{pointer = "x"}]\n'
            '[tensors.x]\ndtype = "f32"\nshape = [4]\n'
        )
        assert load(file).params == (PointerParam("x"),)
    else:
        file = tmp_path / "launch.json"
        file.write_text(json.dumps(data))
        assert load(file).params == from_dict(data).params


BAD = [
    ("entry", ..., "'entry' is missing"),
    ("grid", [2, 1], "grid: expected 3 integers, found 2"),
    ("grid", [0, 1, 1], "grid[0]: expected an integer of at least 1, found 0"),
    ("grid", [1, 70000, 1], "grid[1]: the grid may have at most 65535 blocks"),
    ("block", [2048, 1, 1], "block: a block has at most 1024 threads"),
    ("cluster", [3, 1, 1], "cluster[0]: the cluster must divide the grid: 3 does not divide 2"),
    ("arch", "hopper", 'arch: expected an architecture like sm_80, sm_90a or sm_100a, found "hop'),
    ("dynamic_smem", "8k", 'dynamic_smem: expected an integer, found "8k"'),
    ("smem_base", 1000, "smem_base: expected a power of two, found 1000"),
    ("blocks", 1, "blocks: unknown key, did you mean 'block'?"),
    (
        "tensors.x.dtype",
        "bf61",
        "tensors.x.dtype: unknown element type 'bf61', did you mean 'bf16'",
    ),
    ("tensors.x.role", "input", "tensors.x.role: expected one of in, out, inout, scratch"),
    ("tensors.x.storage", 10, "tensors.x.storage: the tensor's shape and strides reach 4096"),
    ("tensors.x.strides", [1], "tensors.x.strides: expected 2 integers, found 1"),
    ("tensors.index.init", [1, 2], "tensors.index.init: has 2 elements, the tensor 4"),
    ("tensors.index.init", [1, 2, 3, "a"], "tensors.index.init[3]: expected a number"),
    ("tensors.index.init", {"copy_of": "y"}, "tensors.index.init: no tensor 'y'"),
    ("tensors.index.init", {"copy_of": "index"}, "tensors.index.init: 'index' is a copy of itself"),
    ("tensors.index.init", [1, 2, 3, 0.5], "tensors.index.init: 0.5 is no value of the element"),
    ("tensors.index.init", [1, 2, 3, 2**63], "tensors.index.init: 9223372036854775808 is no"),
    ("tensors.index.init", float("nan"), "tensors.index.init: nan is no value of the element"),
    ("tensors.out.init", 1e308, "tensors.out.init: 1e+308 is no value of the element type"),
    ("tensors.out.init", 10**400, "tensors.out.init: an integer that is too large"),
    ("tensors.x.strides", [10**18, 1], "tensors.x.strides: a tensor of"),
    ("tensors.x.storage", 10**18, "tensors.x.storage: a tensor of"),
    ("tensors.out.shape", [10**9, 10**9], "tensors.out.shape: a tensor of"),
    ("params.1.offset", -4, "params[1].offset: is not within the"),
    ("params.1.offset", 10**9, "params[1].offset: is not within the"),
    ("tensors.index.range", [3, 0], "tensors.index.range: the least value 3 is greater"),
    (
        "tensors.index.range",
        [float("nan"), 1],
        "tensors.index.range: expected numbers that are finite",
    ),
    ("tensors.index.range", 3, "tensors.index.range: expected [least, greatest], found 3"),
    ("tensors.3x", {"dtype": "f32", "shape": [1]}, "tensors.3x: '3x' is not a name"),
    ("params.0.tensormap", "y", "params[0].tensormap: no tensor 'y'"),
    ("params.0.box", [64], "params[0].box: expected 2 integers, found 1"),
    ("params.0.box", [128, 64], "params[0].box: the innermost box dimension is at most 128 bytes"),
    ("params.0.box", [4, 64], "params[0].box: the innermost box dimension is a multiple of 16"),
    ("params.0.box", ..., "params[0]: 'box' is missing"),
    ("params.0.swizzle", "128", "params[0].swizzle: expected one of none, 32B"),
    ("params.0.strides_bytes", [130], "params[0].strides_bytes[0]: a stride is a multiple of 16"),
    ("params.0.rank", 3, "params[0].rank: rank is 3, but there are 2 dimensions"),
    ("params.1.pointer", "ot", "params[1].pointer: no tensor 'ot', did you mean 'out'?"),
    ("params.1", {"pointr": "out"}, "params[1]: unknown kind of parameter 'pointr', did you mean"),
    ("params.1", 7, "params[1]: expected a parameter"),
    ("params.2.i32", 1 << 32, "params[2].i32: expected an integer of at most 4294967295"),
    ("params.2.i32", 1.5, "params[2].i32: expected an integer, found 1.5"),
    ("params.3.f32", "a", 'params[3].f32: expected a number, found "a"'),
    ("params.2", {"bytes": "zz"}, "params[2].bytes: expected hexadecimal digits"),
    (
        "params.2",
        {"bytes": 8, "fields": [{"at": 4, "pointer": "out"}]},
        "params[2].fields[0]: ends",
    ),
    ("ref.y", "x", "ref.y: no tensor 'y'"),
    ("ref.out", "x +", "ref.out: not a Python expression"),
    ("tolerance", {"rtol": -1}, "tolerance: expected numbers that are not negative"),
]


@pytest.mark.parametrize(
    ("path", "value", "message"), BAD, ids=[f"{p}-{n}" for n, (p, _, _) in enumerate(BAD)]
)
def test_mistakes(data: dict[str, Any], path: str, value: Any, message: str) -> None:
    put(data, path, value)
    with pytest.raises(InputError) as caught:
        from_dict(data)
    assert message in caught.value.what


def test_the_line_of_a_mistake(data: dict[str, Any], tmp_path: Any) -> None:
    data["params"][0]["box"] = [64, 0]
    text = json.dumps(data, indent=1)
    file = tmp_path / "launch.json"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load(file)
    assert caught.value.location is not None
    line = text.splitlines()[caught.value.location.line - 1]
    assert line.strip() == "0"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b'{"entry": ', "not valid JSON"),
        ("a.json", b"\xff\xfe\x00", "not a text file"),
        ("a.json", b"[1]", "expected a launch description (an object)"),
        ("a.json", b'{"grid": [1, 1, 1], "grid": [2, 1, 1]}', 'the key "grid" is given twice'),
        ("a.json", b"[" * 100000, "nested too deeply"),
        ("a.toml", b"entry = ", "not valid TOML"),
    ],
)
def test_files_that_are_none(tmp_path: Any, name: str, content: bytes, message: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load(file)
    assert message in caught.value.what


def test_no_such_file(tmp_path: Any) -> None:
    with pytest.raises(InputError, match="No such file"):
        load(tmp_path / "launch.json")


def test_a_struct_with_a_tensor_map_and_a_pointer_inside(data: dict[str, Any]) -> None:
    data["params"] = [
        {
            "bytes": 192,
            "fields": [
                {"at": 0, "tensormap": "x", "box": [64, 64]},
                {"at": 128, "pointer": "out", "offset": 16},
                {"at": 136, "u32": 7},
            ],
        }
    ]
    jsonschema.validate(data, schema())
    (param,) = from_dict(data).params
    assert isinstance(param, BytesParam)
    assert param.size == 192
    assert [at for at, _ in param.fields] == [0, 128, 136]
    assert param.fields[1][1] == PointerParam("out", 16)


def test_written_and_read_again(data: dict[str, Any], tmp_path: Any) -> None:
    data["tensors"]["big"] = {"dtype": "i32", "shape": [1000], "init": list(range(1000))}
    data["params"].append({"pointer": "big"})
    first = from_dict(data)
    jsonschema.validate(to_dict(first), schema())
    dump(first, tmp_path / "k.launch.json")
    again = load(tmp_path / "k.launch.json")
    assert (tmp_path / "k.launch.big.npy").exists()
    assert again.params == first.params
    assert to_dict(again) == to_dict(first)
