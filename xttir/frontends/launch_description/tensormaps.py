"""Tensor maps of a launch description, with the rules of `cuTensorMapEncodeTiled`.

What the driver refuses is refused here, with the rule in words: such a launch never happens, so
there is nothing to verify. Dimensions are innermost first, as in the driver's call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xttir.frontends.launch_description import spec as specs
from xttir.frontends.launch_description.dtypes import DType, near
from xttir.frontends.launch_description.fields import Node
from xttir.frontends.launch_description.spec import Im2col, TensorMapParam, TensorSpec

_KEYS = (
    "tensormap",
    "name",
    "box",
    "swizzle",
    "rank",
    "dims",
    "strides_bytes",
    "elem_strides",
    "interleave",
    "oob",
    "offset",
    "dtype",
    "im2col",
)
SPANS = {
    "32B": 32,
    "64B": 64,
    "128B": 128,
    "128B_ATOM_32B": 128,
    "128B_ATOM_32B_FLIP_8B": 128,
    "128B_ATOM_64B": 128,
}
"""Bytes of the innermost box dimension that a swizzle covers at most."""


def read_tensor_map(
    at: Node, tensors: dict[str, TensorSpec], read_dtype: Callable[[Node], DType]
) -> TensorMapParam:
    """A tensor-map parameter; what is left out follows from the tensor."""
    at.object(_KEYS, ("box",))
    name = at.at("tensormap").text()
    if name not in tensors:
        at.at("tensormap").fail(f"no tensor '{name}'{near(name, tensors)}")
    tensor = tensors[name]
    kind = at.when("dtype", read_dtype, tensor.dtype)
    dims = at.when("dims", lambda d: d.integers(None, 1, 2**32), tuple(reversed(tensor.shape)))
    rank = at.when("rank", lambda r: r.integer(1, 5), len(dims))
    if rank != len(dims):
        at.at("dims" if at.has("dims") else "rank").fail(
            f"rank is {rank}, but there are {len(dims)} dimensions"
        )
    strides = at.when(
        "strides_bytes",
        lambda s: s.integers(rank - 1, 0),
        tuple(s * tensor.dtype.size for s in reversed(tensor.strides[:-1])),
    )
    if len(strides) != rank - 1:
        at.fail(f"'strides_bytes' is missing: {rank - 1} strides, the innermost is one element")
    found = TensorMapParam(
        tensor=name,
        box=at.at("box").integers(None if at.has("im2col") else rank, 1, 256),
        swizzle=at.when("swizzle", lambda s: s.one_of(specs.SWIZZLES), "none"),
        dims=dims,
        strides_bytes=strides,
        elem_strides=at.when("elem_strides", lambda s: s.integers(rank, 1, 8), (1,) * rank),
        interleave=at.when("interleave", lambda s: s.one_of(specs.INTERLEAVES), "none"),
        oob=at.when("oob", lambda s: s.one_of(specs.OOB_FILLS), "zero"),
        offset=at.when("offset", lambda o: o.integer(0), 0),
        dtype=kind,
        im2col=at.when("im2col", lambda i: _im2col(i, rank), None),
    )
    _check(at, found, tensor)
    return found


def _im2col(at: Node, rank: int) -> Im2col:
    at.object(("lower", "upper", "channels", "pixels"), ("lower", "upper", "channels", "pixels"))
    return Im2col(
        at.at("lower").integers(rank - 2),
        at.at("upper").integers(rank - 2),
        at.at("channels").integer(1, 256),
        at.at("pixels").integer(1, 1024),
    )


def _check(at: Node, found: TensorMapParam, tensor: TensorSpec) -> None:
    """The driver's rules about a tiled tensor map."""

    def wrong(key: str, what: str) -> Any:
        (at.at(key) if at.has(key) else at).fail(what)

    wide = 32 if found.interleave == "32B" else 16
    if found.interleave != "none" and found.rank < 3:
        wrong("interleave", "an interleaved tensor has at least three dimensions")
    if (found.offset % wide) or tensor.base_align % wide:
        wrong("offset", f"the address of a tensor map's tensor is a multiple of {wide} bytes")
    for i, stride in enumerate(found.strides_bytes):
        if stride % wide or stride >= 2**40:
            at_stride = at.at("strides_bytes").at(i) if at.has("strides_bytes") else at
            at_stride.fail(f"a stride is a multiple of {wide} bytes below 2**40, not {stride}")
    if found.im2col is not None:
        return
    inner = found.box[0] * found.dtype.size
    if found.interleave == "none" and inner % 16:
        wrong("box", f"the innermost box dimension is a multiple of 16 bytes, not {inner}")
    span = SPANS.get(found.swizzle)
    if span is not None and found.interleave == "none" and inner > span:
        wrong(
            "box",
            f"the innermost box dimension is at most {span} bytes with swizzle {found.swizzle}, "
            f"not {inner}",
        )
    if found.interleave == "32B" and found.swizzle != "32B":
        wrong("swizzle", "interleave 32B goes with swizzle 32B")
    if any(n > 256 for n in found.box):
        wrong("box", "a box dimension is at most 256")
