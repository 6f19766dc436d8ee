"""Which register layouts `tmem_load` and `tmem_store` can use: those that a message of tcgen05 has.

A thread's registers are mapped to rows and columns of tensor memory; that map must begin with the
one of an instruction (`tcgen05.ld` of shape 32x32b, 16x256b, 16x64b, 16x128b or 16x32bx2), its
registers in any order, and the rest must repeat it elsewhere. Elements of less than 32 bits are
packed, stand alone in their column, or are padded. The rules are those of Triton's
`TensorMemoryUtils.cpp`, the instructions those of the PTX ISA, section "tcgen05.ld".
"""

from __future__ import annotations

from functools import lru_cache

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute

from xttir.diagnostics import Unsupported
from xttir.dialects.layouts.linear_layout import LayoutError, LinearLayout
from xttir.dialects.layouts.to_linear import linear_layout, memory_shape
from xttir.dialects.tt.traits import check
from xttir.dialects.tt.types import bit_width
from xttir.dialects.ttg.types import MemDescType

Places = tuple[tuple[int, int], ...]
"""(row, column) that each bit of an index adds."""

_WARPS: Places = ((32, 0), (64, 0))
"""Each warp of four reads 32 rows of its own."""

_WORD = 32

_MESSAGES: tuple[tuple[Places, Places], ...] = (
    ((), ((1, 0), (2, 0), (4, 0), (8, 0), (16, 0))),
    (((0, 1), (8, 0)), ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))),
    ((), ((8, 0), (0, 1), (1, 0), (2, 0), (4, 0))),
    (((8, 0),), ((0, 1), (0, 2), (1, 0), (2, 0), (4, 0))),
    ((), ((1, 0), (2, 0), (4, 0), (8, 0))),
)
"""Registers and lanes of a message; the last one's halves of a warp lie anywhere."""


def check_tmem_access(registers: Attribute, memory: Attribute, what: str) -> None:
    """Raise `VerifyException` unless a message moves `memory` from or to the layout of
    `registers`, which is the `what` ("source", "result") of the op."""
    assert isinstance(registers, TensorType)
    assert isinstance(memory, MemDescType)
    if isinstance(registers.encoding, NoneAttr):
        return
    why = _fault(registers, memory)
    check(not why, lambda: f"{what} has a layout that no message of tensor memory has: {why}")


@lru_cache(maxsize=1024)
def _fault(registers: TensorType, memory: MemDescType) -> str:
    """What is wrong; "" if nothing is, or nothing is known of the layouts."""
    shape = memory_shape(memory.encoding, memory.get_alloc_shape())
    try:
        mine = linear_layout(registers.encoding, tuple(registers.get_shape()))
        theirs = linear_layout(memory.encoding, shape[-2:])
    except (LayoutError, Unsupported):
        return ""
    if mine.bases("block") != theirs.bases("block"):
        return "CTAs hold other parts of the tensor than of the memory"
    warps, rows = mine.bases("warp"), theirs.bases("row")
    if len(warps) < len(_WARPS) or warps[:2] != rows[5:7]:
        return "warps 1 and 2 must hold rows 32 and 64"
    moved = _within_block(mine).invert_and_compose(_within_block(theirs))
    if moved is None:
        return "not all of it is in the memory"
    bases = {name: list(moved.bases(name)) for name in ("register", "lane", "warp")}
    bases["warp"][:2] = _WARPS
    extents = {"row": 128, "col": theirs.in_size("col")}
    if moved.out_size("row") > extents["row"]:
        return "tensor memory has 128 rows"
    moved = LinearLayout.of(bases, extents)
    if _has_message(moved, bit_width(memory.element_type), False):
        return ""
    return "its lanes and registers are not those of an instruction"


def _within_block(layout: LinearLayout) -> LinearLayout:
    names = [name for name in layout.in_names if name != "block"]
    return layout.sublayout(names, layout.out_names)


def _columns(count: int) -> LinearLayout:
    """Columns that no register has."""
    return LinearLayout((("register", ()),), (("col", count.bit_length() - 1),))


def _has_message(moved: LinearLayout, width: int, apart: bool) -> bool:
    """Whether a message moves elements of `width` bits as `moved`: (register, lane, warp) -> (row,
    col). `apart`: they stand alone in columns of 32 bits."""
    moved = moved.without_zero_bases("register")
    if width >= _WORD:
        return any(_begins_with(moved, *message, apart) for message in _MESSAGES)
    share = _WORD // width
    together, rest = 1, moved
    while together < share:
        found = moved.divide_left(LinearLayout.identity(2 * together, "register", "col"))
        if found is None:
            break
        together, rest = 2 * together, found
    if together > 1:
        return _has_message(rest, width * together, apart=False)
    pairs = _columns(share) * LinearLayout.identity(2, "register", "col")
    halves = moved.divide_left(pairs)
    if width == 16 and halves is not None:
        # A register has the elements of two columns.
        return _has_message(_columns(share) * halves, _WORD, apart=True)
    padded = moved.divide_left(_columns(share))
    return padded is not None and _has_message(padded, _WORD, apart=False)


def _begins_with(moved: LinearLayout, registers: Places, lanes: Places, apart: bool) -> bool:
    """Whether `moved` is a message, repeated at places that do not overlap with it."""
    if apart:
        registers = tuple((row, 2 * column) for row, column in registers)
        lanes = tuple((row, 2 * column) for row, column in lanes)
    held: list[tuple[int, ...]] = list(moved.bases("register"))
    for place in registers:
        if place not in held:
            return False
        held.remove(place)
    rest = [*held, *moved.bases("lane")[len(lanes) :], *moved.bases("warp")[len(_WARPS) :]]
    if moved.bases("lane")[: len(lanes)] != lanes or moved.bases("warp")[:2] != _WARPS:
        return False
    taken = [sum(place[k] for place in (*registers, *lanes, *_WARPS)) for k in (0, 1)]
    return not any(place[k] & taken[k] for place in rest for k in (0, 1))
