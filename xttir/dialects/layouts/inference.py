"""Which layout the result of an op must have, given that of its operand: ops that move no data.

Such ops rename elements: the same register of the same lane holds the same element before and after
(`tt.trans`, `tt.reshape`, `tt.join`, ...). Each `check_*` raises a VerifyException where the layout
of the result is not the one that follows. The rules are those of the infer-layout interfaces in
`lib/Dialect/TritonGPU/IR/Dialect.cpp` and `lib/Dialect/Gluon/IR/Dialect.cpp`, said of linear
layouts. A layout that has no linear layout here is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.encodings import GLUON_ENCODINGS, SliceEncodingAttr
from xttir.dialects.layouts.linear_layout import LayoutError, LinearLayout, standard_names
from xttir.dialects.layouts.rules import check
from xttir.dialects.layouts.to_linear import layout_with_copies, linear_layout

P = ParamSpec("P")


def _judged(rule: Callable[P, None]) -> Callable[P, None]:
    """`rule`, where layouts exist and are known here."""

    @wraps(rule)
    def judge(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            rule(*args, **kwargs)
        except LayoutError as error:
            raise VerifyException(error.what) from error
        except Unsupported:
            return

    return judge


def shape_of(type_: TensorType) -> tuple[int, ...]:
    return tuple(type_.get_shape())


def has_layout(type_: TensorType) -> bool:
    return not isinstance(type_.encoding, NoneAttr)


def normal(layout: LinearLayout, drop_registers: bool = False) -> object:
    """What decides whether two layouts are the same: bases by name, extents of outputs."""
    ins = {name: many for name, many in layout.ins if many}
    if drop_registers and "register" in ins:
        ins["register"] = tuple(basis for basis in ins["register"] if any(basis))
        if not ins["register"]:
            del ins["register"]
    return ins, tuple(layout.outs)


def same_layout(
    shape: tuple[int, ...], a: Attribute, b: Attribute, drop_registers: bool = False
) -> bool:
    """Whether two encodings put the elements of a tensor of `shape` in the same places.

    With `drop_registers`, registers that hold copies of others do not count.
    """
    if a == b:
        return True
    if isinstance(a, GLUON_ENCODINGS) or isinstance(b, GLUON_ENCODINGS):
        return False
    one, two = linear_layout(a, shape), linear_layout(b, shape)
    return normal(one, drop_registers) == normal(two, drop_registers)


def _check_presence(source: TensorType, result: TensorType) -> bool:
    """Both have layouts, or neither. Whether there is something to compare."""
    check(
        has_layout(source) == has_layout(result),
        lambda: f"either operand and result both have layouts, or neither: {source} and {result}",
    )
    if not has_layout(source):
        return False
    # What is left to inference stays so.
    if isinstance(source.encoding, GLUON_ENCODINGS) or isinstance(result.encoding, GLUON_ENCODINGS):
        check(
            source.encoding == result.encoding,
            lambda: f"a layout to be inferred must stay as it is: {source} and {result}",
        )
        return False
    return True


Rename = Callable[[LinearLayout], LinearLayout]


def _must_follow(
    source: TensorType,
    rename: Rename,
    result: TensorType,
    what: str,
    drop_registers: bool = False,
) -> None:
    """The layout of `result` is that of `source`, renamed, as some release of Triton sees it."""
    for layouts in (linear_layout, layout_with_copies):
        expected = rename(layouts(source.encoding, shape_of(source)))
        got = layouts(result.encoding, shape_of(result))
        if normal(got, drop_registers) == normal(expected, drop_registers):
            return
    raise VerifyException(
        f"the layout of {result} does not follow from that of the operand ({what})"
    )


@_judged
def check_expand_dims(source: TensorType, axis: int, result: TensorType) -> None:
    """The operand has the layout of the result with dimension `axis` sliced out."""
    if not _check_presence(source, result):
        return
    layout = source.encoding
    check(isinstance(layout, SliceEncodingAttr), "operand must have a slice layout")
    assert isinstance(layout, SliceEncodingAttr)
    check(layout.number("dim") == axis, f"operand must have a layout sliced along {axis}")
    check(
        layout.get("parent") == result.encoding,
        lambda: f"the layout of {result} must be the parent of the operand's",
    )


@_judged
def check_reduce(source: TensorType, axis: int, result: TensorType) -> None:
    """The result has the layout of the operand with dimension `axis` sliced out."""
    if not _check_presence(source, result):
        return
    layout = result.encoding
    check(
        isinstance(layout, SliceEncodingAttr)
        and layout.number("dim") == axis
        and layout.get("parent") == source.encoding,
        lambda: f"the layout of {result} must be that of {source} sliced along {axis}",
    )


@_judged
def check_trans(source: TensorType, order: Sequence[int], result: TensorType) -> None:
    """Dimension i of the result is dimension order[i] of the operand."""
    if not _check_presence(source, result):
        return
    _must_follow(source, lambda layout: layout.permute(order), result, "permuted")


def reshaped(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The layout of the same elements, in row-major order, in another shape."""
    flat = layout.transpose_outs(layout.out_names[::-1])
    names = standard_names(len(shape))
    dims = list(zip(names, shape, strict=True))
    return flat.reshape_outs(dims[::-1]).transpose_outs(names)


@_judged
def check_reshape(source: TensorType, result: TensorType, allow_reorder: bool) -> None:
    """As the elements lie, in row-major order; others are allowed with `allow_reorder`."""
    if not _check_presence(source, result):
        return
    before = linear_layout(source.encoding, shape_of(source))
    after = linear_layout(result.encoding, shape_of(result))
    if (
        allow_reorder
        and before.free_variables() == after.free_variables()
        and before.in_size("register") == after.in_size("register")
    ):
        return
    _must_follow(source, lambda layout: reshaped(layout, shape_of(result)), result, "reshaped")


def halved(layout: LinearLayout) -> LinearLayout | None:
    """A layout without its last dimension, of extent 2, which each lane must hold whole.

    None where the two elements of some pair lie in different lanes.
    """
    last = len(layout.outs) - 1
    ins: list[tuple[str, tuple[tuple[int, ...], ...]]] = []
    found = False
    for name, many in layout.ins:
        kept = [basis for basis in many if name != "register" or basis[last] != 1]
        found = found or len(kept) != len(many)
        ins.append((name, tuple(basis[:last] for basis in kept)))
    return LinearLayout(tuple(ins), layout.outs[:last]) if found else None


@_judged
def check_join(source: TensorType, result: TensorType) -> None:
    """Each lane holds both elements of a pair."""
    if not has_layout(result):
        check(not has_layout(source), "result layout must be specified")
        return
    check(has_layout(source), "operands must have layouts where the result has")
    if isinstance(result.encoding, GLUON_ENCODINGS):
        check(source.encoding == result.encoding, "incompatible join layout")
        return
    half = halved(linear_layout(result.encoding, shape_of(result)))
    check(half is not None, "join needs both elements of each pair in one thread")
    assert half is not None
    own = linear_layout(source.encoding, shape_of(source))
    check(normal(half, True) == normal(own, True), "incompatible join layout")


@_judged
def check_split(source: TensorType, result: TensorType) -> None:
    """Each lane held both elements of a pair."""
    if not _check_presence(source, result):
        return

    def half(layout: LinearLayout) -> LinearLayout:
        result = halved(layout)
        check(result is not None, "split needs both elements of each pair in one thread")
        assert result is not None
        return result

    _must_follow(source, half, result, "split", drop_registers=True)


@_judged
def check_broadcast(source: TensorType, result: TensorType) -> None:
    """A lane holds of the result what is repeated from what it holds of the operand."""
    if not has_layout(source) or not has_layout(result):
        return
    if not _check_presence(source, result):
        return
    small, large = shape_of(source), shape_of(result)
    whole = linear_layout(result.encoding, large)
    ones = [a == 1 and b != 1 for a, b in zip(small, large, strict=True)]
    projected = LinearLayout(
        tuple(
            (
                name,
                tuple(
                    tuple(0 if one else value for value, one in zip(basis, ones, strict=True))
                    for basis in many
                ),
            )
            for name, many in whole.ins
        ),
        tuple(
            (name, 0 if one else bits) for (name, bits), one in zip(whole.outs, ones, strict=True)
        ),
    )
    own = linear_layout(source.encoding, small)
    check(
        normal(projected, True) == normal(own, True),
        lambda: (
            f"broadcast of {source} to {result} moves data: it requires matching source and result"
            " layouts up to broadcasting"
        ),
    )


@_judged
def check_cat(source: TensorType, result: TensorType) -> None:
    """Each lane holds its elements of both operands, in some order."""
    if not _check_presence(source, result):
        return

    def registers(type_: TensorType) -> int:
        layout = linear_layout(type_.encoding, shape_of(type_))
        return layout.without_zero_bases("register").in_size("register")

    have, need = 2 * registers(source), registers(result)
    check(
        have == need,
        f"the layout of the result takes {need} values of each thread, but operands give {have}",
    )


@_judged
def check_fp4(source: TensorType, axis: int, result: TensorType) -> None:
    """Each lane holds both elements of a pair along `axis`."""
    if not _check_presence(source, result):
        return
    pair = LinearLayout.identity(2, "register", f"dim{axis}")

    def both(layout: LinearLayout) -> LinearLayout:
        return (pair * layout).transpose_outs(layout.out_names)

    _must_follow(source, both, result, "each thread holds both elements that a byte gives")
