"""The algebra of linear layouts: by its laws, and against Triton's own class."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xttir.dialects.layouts.linear_layout import LayoutError, LinearLayout, identity_nd


@st.composite
def layouts(
    draw: st.DrawFn,
    ins: tuple[str, ...] = ("register", "lane"),
    outs: tuple[str, ...] = ("dim0", "dim1"),
    surjective: bool = False,
) -> LinearLayout:
    """Random maps, of at most 2^8 inputs."""
    widths = [draw(st.integers(0, 3)) for _ in outs]
    bases = {
        name: [
            [draw(st.integers(0, (1 << bits) - 1)) for bits in widths]
            for _ in range(draw(st.integers(0, 4)))
        ]
        for name in ins
    }
    sizes = {name: 1 << bits for name, bits in zip(outs, widths, strict=True)}
    layout = LinearLayout.of(bases, sizes)
    if surjective and not layout.is_surjective:
        grow = identity_nd(ins[0], [1 << bits for bits in widths], range(len(outs)))
        grown = {ins[0]: [*layout.bases(ins[0]), *grow.bases(ins[0])]}
        layout = LinearLayout.of({**dict(layout.ins), **grown}, sizes)
    return layout


def images(layout: LinearLayout) -> set[tuple[int, ...]]:
    """Every output index that some input index has, one input at a time."""
    found = set()
    for index in itertools.product(*(range(size) for size in layout.in_shape)):
        at = [0] * len(layout.outs)
        for value, (_, many) in zip(index, layout.ins, strict=True):
            for bit, basis in enumerate(many):
                if value >> bit & 1:
                    at = [a ^ b for a, b in zip(at, basis, strict=True)]
        found.add(tuple(at))
    return found


@settings(max_examples=40, deadline=None)
@given(layouts())
def test_tables_and_rank(layout: LinearLayout) -> None:
    found = images(layout)
    assert {tuple(row) for row in layout.table.reshape(-1, 2).tolist()} == found
    assert len(found) == 1 << layout.rank
    assert layout.is_surjective == (len(found) == np.prod(layout.out_shape))
    assert layout.is_injective == (len(found) == np.prod(layout.in_shape))
    rows, lanes = np.indices(layout.in_shape)
    applied = layout.apply(register=rows, lane=lanes)
    assert np.array_equal(np.stack([applied["dim0"], applied["dim1"]], -1), layout.table)


@settings(max_examples=40, deadline=None)
@given(layouts())
def test_free_variables_are_those_that_add_nothing(layout: LinearLayout) -> None:
    free = layout.free_variables()
    kept = {
        name: [b for i, b in enumerate(many) if not free[name] >> i & 1]
        for name, many in layout.ins
    }
    rest = LinearLayout.of(kept, dict(zip(layout.out_names, layout.out_shape, strict=True)))
    assert rest.is_injective
    assert images(rest) == images(layout)


@settings(max_examples=40, deadline=None)
@given(layouts(("register",)), layouts(("register", "lane")))
def test_a_product_divided_gives_its_factors(a: LinearLayout, b: LinearLayout) -> None:
    product = a * b
    assert product.divide_left(a) == b.transpose_ins(product.in_names)
    quotient = product.divide_right(b)
    assert quotient is not None
    assert quotient * b == product
    at = product.table[(slice(a.in_size("register")), 0)]
    assert np.array_equal(at, a.table)


@settings(max_examples=40, deadline=None)
@given(layouts(surjective=True), layouts(("register", "warp")))
def test_invert_and_compose(outer: LinearLayout, inner: LinearLayout) -> None:
    inner = inner.clip(dict(zip(outer.out_names, outer.out_shape, strict=True)))
    cvt = inner.invert_and_compose(outer)
    assert cvt is not None
    index = dict(zip(inner.in_names, np.indices(inner.in_shape), strict=True))
    through = outer.apply(**cvt.apply(**index))
    direct = inner.apply(**index)
    for name in outer.out_names:
        assert np.array_equal(through[name], direct[name])


@settings(max_examples=40, deadline=None)
@given(layouts(surjective=True))
def test_pseudo_inverse(layout: LinearLayout) -> None:
    inverse = layout.pseudo_invert()
    index = dict(zip(layout.out_names, np.indices(layout.out_shape), strict=True))
    back = layout.apply(**inverse.apply(**index))
    for name, value in index.items():
        assert np.array_equal(back[name], value)


def test_what_does_not_exist() -> None:
    half = LinearLayout.of({"lane": [[2], [4]]}, {"dim0": 8})
    assert not half.is_surjective
    with pytest.raises(LayoutError):
        half.pseudo_invert()
    with pytest.raises(LayoutError):
        LinearLayout.of({"lane": [[8]]}, {"dim0": 8})
    with pytest.raises(LayoutError):
        LinearLayout.identity(3, "lane", "dim0")
    identity = LinearLayout.identity(8, "lane", "dim0")
    assert identity.invert_and_compose(half) is None
    assert half.divide_left(LinearLayout.identity(2, "lane", "dim0")) is None


@pytest.fixture(scope="module")
def triton() -> Any:
    """Triton's own class of layouts."""
    library: Any = pytest.importorskip("triton._C.libtriton", reason="Triton is not installed")
    return library.linear_layout.LinearLayout


def theirs_of(triton: Any, layout: LinearLayout) -> Any:
    return triton.from_bases(
        [(name, [list(basis) for basis in many]) for name, many in layout.ins],
        list(layout.out_names),
        list(layout.out_shape),
        False,
    )


def ours_of(layout: Any) -> LinearLayout:
    outs = {name: size for name, size in layout.out_dims}
    return LinearLayout.of(dict(layout.bases), outs)


@settings(max_examples=40, deadline=None)
@given(a=layouts(), b=layouts(("register", "warp")))
def test_triton_product(triton: Any, a: LinearLayout, b: LinearLayout) -> None:
    assert ours_of(theirs_of(triton, a) * theirs_of(triton, b)) == a * b


@settings(max_examples=40, deadline=None)
@given(layout=layouts(surjective=True))
def test_triton_inverses(triton: Any, layout: LinearLayout) -> None:
    theirs = theirs_of(triton, layout)
    assert ours_of(theirs.pseudoinvert()) == layout.pseudo_invert()
    assert theirs.is_surjective() == layout.is_surjective
    assert theirs.is_injective() == layout.is_injective


@settings(max_examples=40, deadline=None)
@given(a=layouts(), data=st.data())
def test_triton_compose(triton: Any, a: LinearLayout, data: st.DataObject) -> None:
    bases = {name: [[data.draw(st.integers(0, 7))] for _ in range(bits)] for name, bits in a.outs}
    outer = LinearLayout.of(bases, {"offset": 8})
    theirs = theirs_of(triton, a).compose(theirs_of(triton, outer))
    assert ours_of(theirs) == a.compose(outer)
