"""Launch descriptions from JSON, TOML and Python dicts, with every mistake named at its key.

The form is published as `schema.json` next to this file; the checks here are the same and more
(rules of tensor maps, references between entries), with messages that say what to change.
"""

from __future__ import annotations

import json
import math
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from xttir.diagnostics import InputError, Location
from xttir.frontends.launch_description import spec as specs
from xttir.frontends.launch_description.dtypes import DTYPES, DType, dtype, near
from xttir.frontends.launch_description.fields import Document, Node
from xttir.frontends.launch_description.spec import (
    BytesParam,
    LaunchDescription,
    Param,
    PointerParam,
    PointersParam,
    ScalarParam,
    TensorSpec,
    Tolerance,
    ValueParam,
)
from xttir.frontends.launch_description.tensormaps import read_tensor_map

REQUIRED = ("entry", "grid", "block", "params")
OPTIONAL = (
    "arch",
    "cluster",
    "dynamic_smem",
    "smem_base",
    "cooperative",
    "tensors",
    "ref",
    "tolerance",
    "note",
)
_TENSOR_KEYS = (
    "dtype",
    "shape",
    "strides",
    "role",
    "init",
    "range",
    "storage",
    "base_align",
    "note",
)
_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BYTES = 1 << 47
"""Of a tensor: half of the addresses that a GPU has."""


def schema() -> dict[str, Any]:
    """The published JSON schema of a launch description."""
    name = "xttir.frontends.launch_description"
    return json.loads(resources.files(name).joinpath("schema.json").read_text())


def load(path: str | Path, module: bool = False) -> LaunchDescription:
    """Read a `.json` or `.toml` file. Raises `InputError` with the place of what is wrong.

    `module`: the launch is of a kernel in Triton's IR, which has no block of threads, and whose
    name may be left out ("").
    """
    file = str(path)
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        what = f"cannot read the launch description: {error.strerror or error}"
        raise InputError(what, Location(file)) from error
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError("not a text file (invalid UTF-8)", Location(file, line)) from error
    if Path(path).suffix == ".toml":
        try:
            return _description(Node(tomllib.loads(text), Document(file)), module)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"not valid TOML: {error}", Location(file)) from error
    try:
        data = json.loads(text, object_pairs_hook=_once)
    except _Twice as error:
        what = f"the key {json.dumps(error.key)} is given twice in one object"
        raise InputError(what, Location(file)) from error
    except json.JSONDecodeError as error:
        at = Location(file, error.lineno, error.colno)
        raise InputError(f"not valid JSON: {error.msg}", at) from error
    except RecursionError as error:
        raise InputError("not a launch description: nested too deeply", Location(file)) from error
    return _description(Node(data, Document(file, text)), module)


class _Twice(Exception):
    """A key that an object has twice."""

    def __init__(self, key: str):
        super().__init__(key)
        self.key = key


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise _Twice(key)
        out[key] = value
    return out


def from_dict(data: dict[str, Any], file: str = "", module: bool = False) -> LaunchDescription:
    """The same from Python data; an `init` may also be a numpy array."""
    return _description(Node(data, Document(file)), module)


def _description(node: Node, module: bool) -> LaunchDescription:
    node.object((*REQUIRED, *OPTIONAL), ("grid", "params") if module else REQUIRED)
    tensors = {name: _tensor(name, at) for name, at in _objects(node, "tensors")}
    for name, spec in tensors.items():
        if spec.copy_of is not None:
            _check_copy(node.at("tensors").at(name).at("init"), spec, tensors)
    grid = node.at("grid").integers(3, 1)
    for i, (have, most) in enumerate(zip(grid, _MAX_GRID, strict=True)):
        if have > most:
            node.at("grid").at(i).fail(f"the grid may have at most {most} blocks along this axis")
    block = node.when("block", lambda at: at.integers(3, 1), (1, 1, 1))
    threads = int(np.prod(block))
    if threads > 1024 or block[2] > 64:
        node.at("block").fail(f"a block has at most 1024 threads (64 along z), not {threads}")
    return LaunchDescription(
        entry=node.when("entry", Node.text, ""),
        arch=node.when("arch", _arch, ""),
        grid=grid,  # type: ignore[arg-type]
        block=block,  # type: ignore[arg-type]
        cluster=node.when("cluster", lambda at: _cluster(at, grid), (1, 1, 1)),
        dynamic_smem=node.when("dynamic_smem", lambda at: at.integer(0), 0),
        smem_base=node.when("smem_base", _alignment, 1024),
        cooperative=node.when("cooperative", Node.boolean, False),
        tensors=tensors,
        params=tuple(_param(at, tensors) for at in node.at("params").list("a list of parameters")),
        ref={name: _ref(name, at, tensors) for name, at in _objects(node, "ref")},
        tolerance=node.when("tolerance", _tolerance, Tolerance()),
        note=node.when("note", Node.text, ""),
        file=node.document.file,
        text=node.document.text,
    )


def _objects(node: Node, key: str) -> list[tuple[str, Node]]:
    return node.at(key).items() if node.has(key) else []


def _arch(at: Node) -> str:
    text = at.text()
    digits = text.removeprefix("sm_").rstrip("af")
    if not text.startswith("sm_") or not digits.isdigit() or len(digits) > 3:
        at.expected("an architecture like sm_80, sm_90a or sm_100a")
    return text


def _cluster(at: Node, grid: tuple[int, ...]) -> tuple[int, ...]:
    cluster = at.integers(3, 1)
    if np.prod(cluster) > 16:
        at.fail("a cluster has at most 16 blocks (8 are portable)")
    for i, (whole, part) in enumerate(zip(grid, cluster, strict=True)):
        if whole % part:
            at.at(i).fail(f"the cluster must divide the grid: {part} does not divide {whole}")
    return cluster


def _alignment(at: Node) -> int:
    value = at.integer(1)
    if value & (value - 1):
        at.expected("a power of two")
    return value


def _tolerance(at: Node) -> Tolerance:
    at.object(("rtol", "atol"))
    read = {key: float(at.at(key).number()) for key in at.value}
    if any(value < 0 or value != value for value in read.values()):
        at.expected("numbers that are not negative")
    return Tolerance(**read)


def _ref(name: str, at: Node, tensors: dict[str, TensorSpec]) -> str:
    if name not in tensors:
        at.fail(f"no tensor '{name}'{near(name, tensors)}")
    text = at.text()
    try:
        compile(text, "ref", "eval")
    except (SyntaxError, ValueError) as error:
        reason = getattr(error, "msg", str(error))
        at.fail(f"not a Python expression: {reason}")
    return text


# Tensors ------------------------------------------------------------------------------------------


def read_dtype(at: Node) -> DType:
    """A named element type."""
    found = dtype(at.text())
    if found is None:
        at.fail(
            f"unknown element type '{at.value}'{near(at.value, DTYPES)}",
            f"known: {', '.join(DTYPES)}; packed four-bit types are u8",
        )
    return found


def _tensor(name: str, at: Node) -> TensorSpec:
    at.object(_TENSOR_KEYS, ("dtype", "shape"))
    if not name.isidentifier():
        at.fail(f"'{name}' is not a name that an expression can use")
    kind = read_dtype(at.at("dtype"))
    shape = at.at("shape").integers(None, 0)
    strides = at.when("strides", lambda s: s.integers(len(shape), 0), TensorSpec.contiguous(shape))
    needed = TensorSpec.span(shape, strides)
    storage = at.when("storage", lambda s: s.integer(1), max(needed, 1))
    if storage < needed:
        at.at("storage").fail(
            f"the tensor's shape and strides reach {needed} elements, more than the {storage} "
            "allocated"
        )
    if storage * kind.size > _MAX_BYTES:
        named = next(at.at(k) for k in ("storage", "strides", "shape") if at.has(k))
        named.fail(f"a tensor of {storage * kind.size:,} bytes is more than a GPU can address")
    init, copy_of = at.when("init", lambda i: _init(i, shape), (None, None))
    if isinstance(at.value.get("init"), int | float | list):
        _check_values(at.at("init"), np.asarray(init), kind)
    return TensorSpec(
        name=name,
        dtype=kind,
        shape=shape,
        strides=strides,
        role=at.when("role", lambda r: r.one_of(specs.ROLES), "in"),
        init=init,
        range=at.when("range", _range, None),
        storage=storage,
        copy_of=copy_of,
        base_align=at.when("base_align", _alignment, 256),
    )


def _init(at: Node, shape: tuple[int, ...]) -> tuple[Any, str | None]:
    """(initial contents, name of the tensor to copy)."""
    value = at.value
    if isinstance(value, dict):
        at.object(("copy_of", "file"))
        if len(value) != 1:
            at.expected('{"copy_of": tensor} or {"file": name.npy}')
        if at.has("file"):
            return _from_file(at.at("file"), shape), None
        return None, at.at("copy_of").text()
    if isinstance(value, np.ndarray):
        if value.size != int(np.prod(shape)):
            at.fail(f"has {value.size} elements, the tensor {int(np.prod(shape))}")
        return value.reshape(shape), None
    if isinstance(value, list):
        numbers = [n.number() for n in _leaves(at)]
        large = any(isinstance(n, int) and abs(n) >= 1 << 53 for n in numbers)
        flat = np.asarray(numbers, object if large else None)  # numpy would round some of them
        if flat.size != int(np.prod(shape)):
            at.fail(f"has {flat.size} elements, the tensor {int(np.prod(shape))}")
        return flat.reshape(shape), None
    return at.number(), None


def _check_values(at: Node, values: np.ndarray, kind: DType) -> None:
    """Contents that the element type cannot hold would be others than those written down."""
    if kind.is_float:
        try:
            exact = values.astype(np.float64)
        except OverflowError:
            at.fail("an integer that is too large for any float")
        with np.errstate(all="ignore"):
            wrong = np.isfinite(exact) & ~np.isfinite(exact.astype(kind.numpy).astype(np.float64))
    elif kind.kind == "bool":
        return
    else:
        bits = 8 * kind.size
        low = 0 if kind.kind == "u" else -(1 << bits - 1)
        high = (1 << bits - (kind.kind == "i")) - 1
        wrong = (values % 1 != 0) | (values < low) | (values > high)
    if wrong.any():
        first = values.reshape(-1)[int(np.argmax(wrong))]
        at.fail(f"{first} is no value of the element type {kind.name}")


def _leaves(at: Node) -> list[Node]:
    if not isinstance(at.value, list):
        return [at]
    return [leaf for inner in at.list() for leaf in _leaves(inner)]


def _from_file(at: Node, shape: tuple[int, ...]) -> np.ndarray:
    path = Path(at.document.file).parent / at.text()
    try:
        data = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        at.fail(f"cannot read '{path}' as a numpy array: {error}")
    if not isinstance(data, np.ndarray) or data.size != int(np.prod(shape)):
        at.fail(f"'{path}' has {getattr(data, 'size', 0)} elements, not {int(np.prod(shape))}")
    return data.reshape(shape)


def _range(at: Node) -> tuple[int, int]:
    low, high = (
        (node.number() for node in at.list("[least, greatest]")[:2])
        if (isinstance(at.value, list | tuple) and len(at.value) == 2)
        else at.expected("[least, greatest]")
    )
    if not (math.isfinite(low) and math.isfinite(high)):
        at.expected("numbers that are finite")
    if low > high:
        at.fail(f"the least value {low} is greater than the greatest {high}")
    return low, high  # type: ignore[return-value]


def _check_copy(at: Node, spec: TensorSpec, tensors: dict[str, TensorSpec]) -> None:
    name = spec.copy_of or ""
    if name not in tensors:
        at.fail(f"no tensor '{name}'{near(name, tensors)}")
    source, seen = tensors[name], {spec.name}
    if (source.shape, source.dtype) != (spec.shape, spec.dtype):
        at.fail(f"'{name}' has another shape or element type")
    while source.copy_of is not None and source.copy_of in tensors:
        if source.name in seen:
            break
        seen.add(source.name)
        source = tensors[source.copy_of]
    if source.name in seen:
        at.fail(f"'{spec.name}' is a copy of itself")


# Parameters ---------------------------------------------------------------------------------------

_SCALARS = tuple(name for name in DTYPES if name != "f8e8m0")
_SHAPES = (
    '{"pointer": tensor}, {"tensormap": tensor, ...}, {"i32": 5} (any scalar type) or '
    '{"bytes": hex, "fields": [...]}'
)


def _param(at: Node, tensors: dict[str, TensorSpec]) -> Param:
    value = at.value
    if not isinstance(value, dict):
        at.expected(f"a parameter: {_SHAPES}")
    if "pointer" in value:
        return _pointer(at, tensors)
    if "tensormap" in value:
        return read_tensor_map(at, tensors, read_dtype)
    if "bytes" in value:
        return _struct(at, tensors)
    for key, kind in (("value", ValueParam), ("pointers", PointersParam)):
        if key in value:
            at.object((key, "name"))
            tensor_named(at.at(key), tensors)
            return kind(value[key])
    words = [key for key in value if key != "name"]
    if len(words) != 1:
        at.expected(f"a parameter: {_SHAPES}")
    kind = dtype(words[0])
    if kind is None:
        known = ["pointer", "tensormap", "bytes", *_SCALARS]
        at.fail(
            f"unknown kind of parameter '{words[0]}'{near(words[0], known)}",
            f"a parameter is {_SHAPES}",
        )
    return _scalar(at.at(words[0]), kind)


def _pointer(at: Node, tensors: dict[str, TensorSpec]) -> PointerParam:
    at.object(("pointer", "offset", "name"))
    target = at.at("pointer")
    offset = at.when("offset", lambda o: o.integer(), 0)
    if target.value is None:
        return PointerParam(None, offset)
    size = tensor_named(target, tensors).size
    if not 0 <= offset <= size:
        at.at("offset").fail(f"is not within the {size} bytes of '{target.value}'")
    return PointerParam(target.value, offset)


def tensor_named(at: Node, tensors: dict[str, TensorSpec]) -> TensorSpec:
    """The tensor that a string names."""
    name = at.text()
    if name not in tensors:
        known = f"known: {', '.join(tensors)}" if tensors else "the description has no tensors"
        at.fail(f"no tensor '{name}'{near(name, tensors)}", known)
    return tensors[name]


def _scalar(at: Node, kind: DType) -> ScalarParam:
    value = at.value
    if kind.kind == "bool" and isinstance(value, bool):
        return ScalarParam(kind, int(value))
    if kind.is_float:
        return ScalarParam(kind, float(at.number()))
    width = 8 * kind.size
    if kind.kind == "bool":
        return ScalarParam(kind, at.integer(0, 1))
    low = -(1 << (width - 1)) if kind.kind in "ib" else 0
    # i32 is also what a kernel takes as unsigned: every value of that width can be passed.
    return ScalarParam(kind, at.integer(low, (1 << width) - 1))


def _struct(at: Node, tensors: dict[str, TensorSpec]) -> BytesParam:
    at.object(("bytes", "size", "fields", "name"))
    given = at.at("bytes")
    if isinstance(given.value, int):
        data = bytes(given.integer(1, 4096))
    else:
        try:
            data = bytes.fromhex(given.text())
        except ValueError:
            given.expected("hexadecimal digits, or a number of zero bytes")
    size = at.when("size", lambda s: s.integer(1, 32764), len(data))
    if size < len(data):
        at.at("size").fail(f"the bytes given are {len(data)}")
    fields = []
    for node in at.at("fields").list("a list of fields") if at.has("fields") else []:
        if not isinstance(node.value, dict) or "at" not in node.value:
            node.expected('a field: {"at": byte offset, "pointer": ...}')
        rest = {key: value for key, value in node.value.items() if key != "at"}
        inner = _param(Node(rest, node.document, node.path), tensors)
        offset = node.at("at").integer(0)
        if offset + inner.size > size:
            node.fail(f"ends at byte {offset + inner.size}, past the end of the {size} bytes")
        fields.append((offset, inner))
    return BytesParam(data.ljust(size, b"\0"), tuple(fields))
