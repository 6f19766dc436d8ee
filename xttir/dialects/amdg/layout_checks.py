"""Which layouts ops of `amdg` on registers may have: each thread works on what it holds itself.

The rules are those of the verifiers in Triton's `third_party/amd/lib/Dialect/TritonAMDGPU/IR`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.utils.exceptions import VerifyException

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.encodings import BlockedEncodingAttr
from xttir.dialects.layouts.inference import normal
from xttir.dialects.layouts.linear_layout import LayoutError, LinearLayout, identity_nd
from xttir.dialects.layouts.to_linear import layout_of
from xttir.dialects.tt.traits import check

P = ParamSpec("P")


def _judged(rule: Callable[P, None]) -> Callable[P, None]:
    """`rule`, where layouts are known here."""

    @wraps(rule)
    def judge(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            rule(*args, **kwargs)
        except LayoutError as error:
            raise VerifyException(error.what) from error
        except Unsupported:
            return

    return judge


def _held(layout: LinearLayout) -> NDArray[np.int64]:
    """int64[registers, rank]: the elements of the first lane of the first warp."""
    only = layout.sublayout(["register"], layout.out_names)
    places = only.apply(register=np.arange(only.in_size("register")))
    return np.stack([places[name] for name in layout.out_names], axis=-1)


def _check_tile(
    source: LinearLayout, result: LinearLayout, wanted: NDArray[np.int64], what: str
) -> None:
    """The registers of `source` hold all of `wanted`; lanes and warps are the same in both."""
    have = set(map(tuple, _held(source).tolist()))
    for element in wanted.tolist():
        check(
            tuple(element) in have,
            f"no source register holds the element for {what} {element}",
        )
    for name in ("lane", "warp"):
        check(
            source.bases(name) == result.bases(name),
            "lane and warp dim basis must match between source and destination layout",
        )


@_judged
def check_concat(source: TensorType, result: TensorType) -> None:
    """Each thread holds of each source what it holds of the result."""
    if isinstance(source.encoding, NoneAttr) or isinstance(result.encoding, NoneAttr):
        return
    before, after = layout_of(source), layout_of(result)
    wanted = _held(after) % np.array(source.get_shape())
    _check_tile(before, after, wanted, "destination index")


@_judged
def check_extract(source: TensorType, offsets: Sequence[int], result: TensorType) -> None:
    """Each thread holds of the source what it is to hold of the slice."""
    if isinstance(source.encoding, NoneAttr) or isinstance(result.encoding, NoneAttr):
        return
    before, after = layout_of(source), layout_of(result)
    _check_tile(before, after, _held(after) + np.array(offsets), "source index")


@_judged
def check_in_thread_transpose(source: TensorType, result: TensorType) -> None:
    """The registers of a thread in the other order of dimensions."""
    check(
        source.element_type == result.element_type,
        "expect input and output tensor to have same dtype",
    )
    shape = tuple(source.get_shape())
    check(shape == tuple(result.get_shape()), "expect equal input and output shapes")
    check(len(shape) == 2, "expect 2d tensor")
    layout = source.encoding
    check(isinstance(layout, BlockedEncodingAttr), "expect input tensor in Blocked encoding")
    assert isinstance(layout, BlockedEncodingAttr)
    before = layout_of(source)
    size = [min(a, b) for a, b in zip(layout.numbers("sizePerThread"), shape, strict=True)]
    tile = identity_nd("register", size, layout.numbers("order")[::-1])
    moved = tile.transpose_outs(before.out_names).bases("register")
    registers = (*moved, *before.bases("register")[len(moved) :])
    wanted = LinearLayout(
        tuple((name, registers if name == "register" else many) for name, many in before.ins),
        before.outs,
    )
    check(
        normal(layout_of(result)) == normal(wanted),
        "expect output layout to be transposed per thread",
    )
