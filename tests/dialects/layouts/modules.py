"""Small random modules: one op that moves no data, with a layout that follows or does not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import assume
from hypothesis import strategies as st

from tests.dialects.layouts import strategies as s
from xttir.dialects.context import make_context
from xttir.dialects.layouts.inference import halved, reshaped
from xttir.dialects.layouts.linear_layout import LinearLayout
from xttir.dialects.layouts.parameters import without_dim
from xttir.dialects.layouts.to_linear import linear_layout
from xttir.dialects.syntax.parser import TTParser

CONTEXT = make_context()


def layout_of(encoding: str, shape: Sequence[int]) -> LinearLayout:
    return linear_layout(TTParser(CONTEXT, encoding).parse_attribute(), tuple(shape))


def linear_encoding(layout: LinearLayout) -> str:
    """`layout` as an encoding."""
    listed = ", ".join(
        f"{name} = {s.bases(layout.bases(name))}" for name in ("register", "lane", "warp", "block")
    )
    return f"#ttg.linear<{{{listed}}}>"


def tensor(shape: Sequence[int], encoding: str, element: str = "f32") -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}, {encoding}>"


@dataclass(frozen=True)
class Case:
    """One op on arguments; `layout` decides the number of warps and lanes of the module."""

    body: str
    arguments: tuple[str, ...]
    layout: LinearLayout

    @property
    def text(self) -> str:
        warps, lanes = self.layout.in_size("warp"), self.layout.in_size("lane")
        arguments = ", ".join(f"%a{i}: {type_}" for i, type_ in enumerate(self.arguments))
        return (
            f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, '
            f'"ttg.threads-per-warp" = {lanes} : i32}} {{\n'
            f"  tt.func public @f({arguments}) {{\n    {self.body}\n    tt.return\n  }}\n}}\n"
        )


@st.composite
def source(draw: st.DrawFn, low: int = 1, high: int = 3, pair: bool = False) -> s.Case:
    """A tensor in registers; with `pair`, its last extent is 2."""
    rank = draw(st.integers(low, high))
    shape = draw(s.shapes(rank, 0, 6))
    if pair:
        shape = (*shape[:-1], 2)
    kind = draw(st.sampled_from(("blocked", "blocked", "linear", "mma", "slice")))
    if kind == "linear":
        assume(math.prod(shape) > 1)
        text = draw(s.linear_text(shape, one_block=True))
    elif kind == "mma" and rank in (2, 3):
        text = draw(s.mma_text(rank, 2, one_block=True))
    elif kind == "slice" and rank < 3:
        parent = draw(s.blocked_text(rank + 1, one_block=True))
        text = f"#ttg.slice<{{dim = {draw(st.integers(0, rank))}, parent = {parent}}}>"
    else:
        text = draw(s.blocked_text(rank, one_block=True))
    return s.Case(text, shape)


@st.composite
def result_of(draw: st.DrawFn, right: LinearLayout | None, shape: Sequence[int]) -> str:
    """The encoding `right` as a linear one, or that with a fault, or any other."""
    choice = draw(st.sampled_from(("right", "right", "swapped", "dropped", "other")))
    if right is None or choice == "other" or not right.is_surjective:
        if math.prod(shape) == 1 or draw(st.booleans()):
            return draw(s.blocked_text(len(shape), one_block=True))
        return draw(s.linear_text(shape, one_block=True))
    bases = {name: list(many) for name, many in right.ins}
    if choice == "swapped":
        one, two = (draw(st.sampled_from(("register", "lane", "warp"))) for _ in range(2))
        if bases[one] and bases[two]:
            i = draw(st.integers(0, len(bases[one]) - 1))
            j = draw(st.integers(0, len(bases[two]) - 1))
            bases[one][i], bases[two][j] = bases[two][j], bases[one][i]
    elif choice == "dropped":
        zero = (0,) * len(shape)
        if draw(st.booleans()):
            bases["register"] = [*bases["register"], zero]
        else:
            bases["register"] = [b for b in bases["register"] if any(b)]
    return linear_encoding(LinearLayout.of(bases, dict(zip(right.out_names, shape, strict=True))))


@st.composite
def trans(draw: st.DrawFn) -> Case:
    case = draw(source(2))
    layout = layout_of(case.encoding, case.shape)
    order = draw(st.permutations(range(len(case.shape))))
    shape = [case.shape[i] for i in order]
    result = draw(result_of(layout.permute(order), shape))
    types = f"{tensor(case.shape, case.encoding)} -> {tensor(shape, result)}"
    body = f"%r = tt.trans %a0 {{order = array<i32: {', '.join(map(str, order))}>}} : {types}"
    return Case(body, (tensor(case.shape, case.encoding),), layout)


@st.composite
def reshape(draw: st.DrawFn) -> Case:
    case = draw(source())
    layout = layout_of(case.encoding, case.shape)
    shape = draw(s.split(math.prod(case.shape), draw(st.integers(1, 3))))
    result = draw(result_of(reshaped(layout, shape), shape))
    reorder = draw(st.sampled_from(("", "", "allow_reorder ")))
    types = f"{tensor(case.shape, case.encoding)} -> {tensor(shape, result)}"
    return Case(
        f"%r = tt.reshape %a0 {reorder}: {types}", (tensor(case.shape, case.encoding),), layout
    )


@st.composite
def expand_dims(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 2))
    axis = draw(st.integers(0, rank))
    parent = draw(s.blocked_text(rank + 1, one_block=True))
    dim = draw(st.sampled_from((axis, axis, axis, draw(st.integers(0, rank)))))
    encoding = f"#ttg.slice<{{dim = {dim}, parent = {parent}}}>"
    shape = draw(s.shapes(rank, 0, 6))
    larger = (*shape[:axis], 1, *shape[axis:])
    other = draw(s.blocked_text(rank + 1, one_block=True))
    result = draw(st.sampled_from((parent, parent, other)))
    types = f"{tensor(shape, encoding)} -> {tensor(larger, result)}"
    body = f"%r = tt.expand_dims %a0 {{axis = {axis} : i32}} : {types}"
    return Case(body, (tensor(shape, encoding),), layout_of(encoding, shape))


@st.composite
def join(draw: st.DrawFn) -> Case:
    case = draw(source(2, pair=True))
    half = halved(layout_of(case.encoding, case.shape))
    shape = case.shape[:-1]
    operand = draw(result_of(half, shape))
    types = f"{tensor(shape, operand)} -> {tensor(case.shape, case.encoding)}"
    argument = tensor(shape, operand)
    layout = layout_of(case.encoding, case.shape)
    return Case(f"%r = tt.join %a0, %a1 : {types}", (argument, argument), layout)


@st.composite
def split(draw: st.DrawFn) -> Case:
    case = draw(source(2, pair=True))
    layout = layout_of(case.encoding, case.shape)
    shape = case.shape[:-1]
    result = draw(result_of(halved(layout), shape))
    types = f"{tensor(case.shape, case.encoding)} -> {tensor(shape, result)}"
    return Case(f"%r, %t = tt.split %a0 : {types}", (tensor(case.shape, case.encoding),), layout)


@st.composite
def broadcast(draw: st.DrawFn) -> Case:
    case = draw(source())
    layout = layout_of(case.encoding, case.shape)
    small = tuple(draw(st.sampled_from((1, n))) for n in case.shape)
    right = layout.clip(dict(zip(layout.out_names, small, strict=True)))
    operand = draw(st.sampled_from((case.encoding, draw(result_of(right, small)))))
    types = f"{tensor(small, operand)} -> {tensor(case.shape, case.encoding)}"
    return Case(f"%r = tt.broadcast %a0 : {types}", (tensor(small, operand),), layout)


@st.composite
def reduce(draw: st.DrawFn) -> Case:
    case = draw(source(2))
    axis = draw(st.integers(0, len(case.shape) - 1))
    shape = case.shape[:axis] + case.shape[axis + 1 :]
    layout = layout_of(case.encoding, case.shape)
    right = f"#ttg.slice<{{dim = {axis}, parent = {case.encoding}}}>"
    clipped = without_dim(layout.clip({f"dim{axis}": 1}), axis)
    result = draw(st.sampled_from((right, right, draw(result_of(clipped, shape)))))
    body = (
        f'%r = "tt.reduce"(%a0) <{{axis = {axis} : i32}}> ({{\n'
        "    ^bb0(%x: f32, %y: f32):\n      %z = arith.addf %x, %y : f32\n"
        f"      tt.reduce.return %z : f32\n    }}) : ({tensor(case.shape, case.encoding)}) -> "
        f"{tensor(shape, result)}"
    )
    return Case(body, (tensor(case.shape, case.encoding),), layout)


@st.composite
def cat(draw: st.DrawFn) -> Case:
    case = draw(source())
    layout = layout_of(case.encoding, case.shape)
    shape = (2 * case.shape[0], *case.shape[1:])
    result = draw(st.sampled_from((case.encoding, draw(result_of(None, shape)))))
    types = f"{tensor(case.shape, case.encoding)} -> {tensor(shape, result)}"
    argument = tensor(case.shape, case.encoding)
    return Case(f"%r = tt.cat %a0, %a1 : {types}", (argument, argument), layout)


@st.composite
def fp4(draw: st.DrawFn) -> Case:
    case = draw(source())
    axis = draw(st.integers(0, len(case.shape) - 1))
    layout = layout_of(case.encoding, case.shape)
    pair = LinearLayout.identity(2, "register", f"dim{axis}")
    right = (pair * layout).transpose_outs(layout.out_names)
    shape = (*case.shape[:axis], 2 * case.shape[axis], *case.shape[axis + 1 :])
    result = draw(result_of(right, shape))
    argument = tensor(case.shape, case.encoding, "i8")
    types = f"{argument} -> {tensor(shape, result, 'f16')}"
    return Case(f"%r = ttg.fp4_to_fp %a0 {{axis = {axis} : i32}} : {types}", (argument,), layout)


OPS = {
    "trans": trans(),
    "reshape": reshape(),
    "expand_dims": expand_dims(),
    "join": join(),
    "split": split(),
    "broadcast": broadcast(),
    "reduce": reduce(),
    "cat": cat(),
    "fp4_to_fp": fp4(),
}
