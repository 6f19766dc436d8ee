"""Linear layouts: maps between index spaces that are linear over GF(2), on bits of the indices.

Such a map is given by the images of the powers of two of every input dimension (its bases); the
image of any index is the xor of those of its bits. A layout of registers maps (register, lane,
warp, block) to an element of a tensor, one of memory maps (offset, block) to it. The idea and the
names are those of Triton's `LinearLayout.h` and of "Linear Layouts" (arXiv:2505.23819).
Layouts are small (some 30 bases), so that algebra works on Python integers as bit vectors;
application works on whole numpy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from xttir.diagnostics import InputError
from xttir.dialects.layouts.gf2 import Elimination, combine, span

Basis = tuple[int, ...]
"""The image of a power of two: one number per output dimension."""


class LayoutError(InputError):
    """A layout that does not exist: of an encoding on a shape that it cannot hold, and the like."""


def bits_of(size: int, what: str = "size") -> int:
    """log2 of a power of two."""
    if size < 1 or size & (size - 1):
        raise LayoutError(f"{what} {size} is not a power of two")
    return size.bit_length() - 1


@dataclass(frozen=True)
class LinearLayout:
    """A GF(2)-linear map from named input dimensions to named output dimensions.

    `ins` gives for each input dimension its bases, from the lowest bit on; `outs` the log2 of the
    extent of each output dimension. The order of dimensions matters to equality, to flattening
    (the first dimension is the fastest) and to which solution an inverse picks.
    """

    ins: tuple[tuple[str, tuple[Basis, ...]], ...]
    outs: tuple[tuple[str, int], ...]

    # Construction

    @staticmethod
    def of(
        bases: Mapping[str, Iterable[Sequence[int]]], outs: Mapping[str, int] | Sequence[str]
    ) -> LinearLayout:
        """From the bases of each input dimension, and the extents of the output dimensions.

        Where only names of output dimensions are given, each is as large as its bases need.
        """
        ins = tuple((name, tuple(tuple(basis) for basis in many)) for name, many in bases.items())
        every = [basis for _, many in ins for basis in many]
        names = tuple(outs)
        if any(len(basis) != len(names) for basis in every):
            raise LayoutError(f"each basis needs {len(names)} numbers, one per dimension")
        if any(value < 0 for basis in every for value in basis):
            raise LayoutError("a basis of a layout is negative")
        if isinstance(outs, Mapping):
            sizes = tuple((name, bits_of(size, f"extent of {name}")) for name, size in outs.items())
        else:
            sizes = tuple(
                (name, max((basis[i].bit_length() for basis in every), default=0))
                for i, name in enumerate(names)
            )
        for basis in every:
            for value, (name, bits) in zip(basis, sizes, strict=True):
                if value >> bits:
                    raise LayoutError(
                        f"basis {value} lies outside of {name}, of extent {1 << bits}"
                    )
        return LinearLayout(ins, sizes)

    @staticmethod
    def identity(size: int, source: str, target: str) -> LinearLayout:
        """`source` of extent `size` mapped to `target` as it is."""
        bits = bits_of(size)
        return LinearLayout(
            ((source, tuple((1 << i,) for i in range(bits))),),
            ((target, bits),),
        )

    @staticmethod
    def zeros(size: int, source: str, target: str) -> LinearLayout:
        """`source` of extent `size` mapped to 0 of `target`, of extent 1."""
        return LinearLayout(((source, ((0,),) * bits_of(size)),), ((target, 0),))

    @staticmethod
    def empty() -> LinearLayout:
        """The neutral element of the product."""
        return LinearLayout((), ())

    # Dimensions

    @property
    def in_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.ins)

    @property
    def out_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.outs)

    def bases(self, name: str) -> tuple[Basis, ...]:
        """The bases of input dimension `name`; none where there is no such dimension."""
        return dict(self.ins).get(name, ())

    def in_size(self, name: str) -> int:
        """The extent of input dimension `name`; 1 where there is none."""
        return 1 << len(self.bases(name))

    def out_size(self, name: str) -> int:
        """The extent of output dimension `name`; 1 where there is none."""
        return 1 << dict(self.outs).get(name, 0)

    @property
    def in_shape(self) -> tuple[int, ...]:
        return tuple(1 << len(bases) for _, bases in self.ins)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return tuple(1 << bits for _, bits in self.outs)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """Every basis as one number: the first output dimension in the lowest bits."""
        shifts = self._shifts()
        return tuple(
            sum(value << shift for value, shift in zip(basis, shifts, strict=True))
            for _, many in self.ins
            for basis in many
        )

    def _shifts(self) -> tuple[int, ...]:
        shifts, total = [], 0
        for _, bits in self.outs:
            shifts.append(total)
            total += bits
        return tuple(shifts)

    def _from_columns(
        self,
        columns: Sequence[int],
        ins: Sequence[tuple[str, int]],
        outs: Sequence[tuple[str, int]],
    ) -> LinearLayout:
        """Columns cut into dimensions of the given log2 extents."""
        bases: list[tuple[str, tuple[Basis, ...]]] = []
        position = 0
        for name, bits in ins:
            bases.append(
                (name, tuple(unpack(c, outs) for c in columns[position : position + bits]))
            )
            position += bits
        assert position == len(columns)
        return LinearLayout(tuple(bases), tuple(outs))

    # Properties

    @cached_property
    def rank(self) -> int:
        """The dimension of the image."""
        return len(Elimination.of(self.columns).pivots)

    @property
    def in_bits(self) -> int:
        return len(self.columns)

    @property
    def out_bits(self) -> int:
        return sum(bits for _, bits in self.outs)

    @property
    def is_surjective(self) -> bool:
        """Whether every output index is the image of some input index."""
        return self.rank == self.out_bits

    @property
    def is_injective(self) -> bool:
        """Whether no two input indices have the same image."""
        return self.rank == self.in_bits

    @property
    def is_invertible(self) -> bool:
        return self.is_surjective and self.is_injective

    def free_variables(self) -> dict[str, int]:
        """Per input dimension the mask of bits that others make redundant.

        The image does not change for elements of the kernel; each of these bits, with some bits
        before it, is in it. A bit counts as redundant if its basis follows from those before.
        """
        elimination = Elimination.of(self.columns)
        masks: dict[str, int] = {}
        position = 0
        for name, bases in self.ins:
            masks[name] = sum(
                1 << i for i in range(len(bases)) if position + i in elimination.dependent
            )
            position += len(bases)
        return masks

    # Algebra

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        """The product: `other` works on the bits above those of `self`, in inputs and outputs.

        Dimensions that only one of them has are merged in, in the order that both agree with.
        """
        widths, added = dict(self.outs), dict(other.outs)
        names = _merged(self.out_names, other.out_names)

        def placed(basis: Basis, outs: Sequence[str], shift: Mapping[str, int]) -> Basis:
            values = dict(zip(outs, basis, strict=True))
            return tuple(values.get(name, 0) << shift.get(name, 0) for name in names)

        ins: list[tuple[str, tuple[Basis, ...]]] = []
        for name in _merged(self.in_names, other.in_names):
            mine = [placed(basis, self.out_names, {}) for basis in self.bases(name)]
            above = [placed(basis, other.out_names, widths) for basis in other.bases(name)]
            ins.append((name, (*mine, *above)))
        outs = tuple((name, widths.get(name, 0) + added.get(name, 0)) for name in names)
        return LinearLayout(tuple(ins), outs)

    def compose(self, outer: LinearLayout) -> LinearLayout:
        """The map x -> outer(self(x)); the outputs of `self` are the inputs of `outer`."""
        if set(self.out_names) != set(outer.in_names):
            raise LayoutError(f"cannot compose: {self.out_names} are not {outer.in_names}")
        inner = self.transpose_outs(outer.in_names)
        for name, bits in inner.outs:
            if (1 << bits) > outer.in_size(name):
                raise LayoutError(f"cannot compose: {name} is larger than in the outer layout")
        ordered: list[int] = []
        position = 0
        for (_, bits), (_, many) in zip(inner.outs, outer.ins, strict=True):
            ordered += outer.columns[position : position + bits]
            position += len(many)
        columns = [combine(ordered, column) for column in inner.columns]
        return self._from_columns(columns, self._in_widths(), outer.outs)

    def _in_widths(self) -> list[tuple[str, int]]:
        return [(name, len(many)) for name, many in self.ins]

    def transpose_ins(self, names: Sequence[str]) -> LinearLayout:
        """The same with its input dimensions in the order `names`."""
        mine = dict(self.ins)
        _same_names(names, mine)
        return LinearLayout(tuple((name, mine[name]) for name in names), self.outs)

    def transpose_outs(self, names: Sequence[str]) -> LinearLayout:
        """The same with its output dimensions in the order `names`."""
        if tuple(names) == self.out_names:
            return self
        mine = dict(self.outs)
        _same_names(names, mine)
        order = [self.out_names.index(name) for name in names]
        return self._map_bases(
            lambda basis: tuple(basis[i] for i in order), [(name, mine[name]) for name in names]
        )

    def _map_bases(
        self, change: Callable[[Basis], Basis], outs: Iterable[tuple[str, int]]
    ) -> LinearLayout:
        return LinearLayout(
            tuple((name, tuple(change(basis) for basis in many)) for name, many in self.ins),
            tuple(outs),
        )

    def reshape_ins(self, dims: Sequence[tuple[str, int]]) -> LinearLayout:
        """Input bits dealt out anew to dimensions of the given extents, the first the fastest."""
        widths = [(name, bits_of(size)) for name, size in dims]
        if sum(bits for _, bits in widths) != self.in_bits:
            raise LayoutError("a reshape of inputs must keep their number")
        return self._from_columns(self.columns, widths, self.outs)

    def reshape_outs(self, dims: Sequence[tuple[str, int]]) -> LinearLayout:
        """Output bits dealt out anew to dimensions of the given extents, the first the fastest."""
        widths = [(name, bits_of(size)) for name, size in dims]
        if sum(bits for _, bits in widths) != self.out_bits:
            raise LayoutError("a reshape of outputs must keep their number")
        return self._from_columns(self.columns, self._in_widths(), widths)

    def sublayout(self, ins: Iterable[str], outs: Iterable[str]) -> LinearLayout:
        """Only these dimensions, in their order here; extents of outputs stay as they are."""
        ins, outs = set(ins), set(outs)
        keep = [i for i, name in enumerate(self.out_names) if name in outs]
        return LinearLayout(
            tuple(
                (name, tuple(tuple(basis[i] for i in keep) for basis in many))
                for name, many in self.ins
                if name in ins
            ),
            tuple(self.outs[i] for i in keep),
        )

    def permute(self, order: Sequence[int]) -> LinearLayout:
        """Output i is what output order[i] was; names stay where they are."""
        moved = self._map_bases(
            lambda basis: tuple(basis[i] for i in order), [self.outs[i] for i in order]
        )
        return moved.rename_outs(self.out_names)

    def drop_out(self, name: str) -> LinearLayout:
        """Without output dimension `name`."""
        return self.sublayout(self.in_names, [out for out in self.out_names if out != name])

    def rename_outs(self, names: Sequence[str]) -> LinearLayout:
        """The same with other names of its output dimensions."""
        pairs = zip(names, self.outs, strict=True)
        return LinearLayout(self.ins, tuple((name, bits) for name, (_, bits) in pairs))

    def resize_in(self, name: str, size: int) -> LinearLayout:
        """Input dimension `name` cut, or extended by bases of zero."""
        bits = bits_of(size)
        zero = ((0,) * len(self.outs),)
        return LinearLayout(
            tuple(
                (dim, (many + zero * bits)[:bits] if dim == name else many)
                for dim, many in self.ins
            ),
            self.outs,
        )

    def resize_out(self, name: str, size: int) -> LinearLayout:
        """Output dimension `name` cut to `size`; bases that lead outside are zero there."""
        return self.clip({name: min(size, self.out_size(name))})

    def clip(self, shape: Mapping[str, int], drop_registers: bool = False) -> LinearLayout:
        """Output dimensions no larger than in `shape`; bases that lead outside are zero there.

        With `drop_registers`, bases of registers that become zero by it are left out.
        """
        limits = tuple(min(1 << bits, shape.get(name, 1 << bits)) for name, bits in self.outs)
        ins: list[tuple[str, tuple[Basis, ...]]] = []
        for name, many in self.ins:
            cut = []
            for basis in many:
                new = tuple(
                    value if value < limit else 0
                    for value, limit in zip(basis, limits, strict=True)
                )
                if drop_registers and name == "register" and any(basis) and not any(new):
                    continue
                cut.append(new)
            ins.append((name, tuple(cut)))
        outs = tuple(
            (name, bits_of(limit)) for name, limit in zip(self.out_names, limits, strict=True)
        )
        return LinearLayout(tuple(ins), outs)

    def extend(self, shape: Mapping[str, int], name: str | None = None) -> LinearLayout:
        """Output dimensions no smaller than in `shape`, reached by more of input `name`.

        The dimensions are extended in their order; `name` is the first input if not given.
        """
        layout = self
        grown = self.in_names[0] if name is None else name
        for out, bits in self.outs:
            missing = bits_of(shape.get(out, 1), f"extent of {out}") - bits
            if missing > 0:
                layout = layout * LinearLayout.identity(1 << missing, grown, out)
        return layout

    def without_zero_bases(self, name: str) -> LinearLayout:
        """Input dimension `name` without the bases that are zero."""
        return LinearLayout(
            tuple(
                (dim, tuple(basis for basis in many if any(basis)) if dim == name else many)
                for dim, many in self.ins
            ),
            self.outs,
        )

    # Inverses

    def invert_and_compose(self, outer: LinearLayout) -> LinearLayout | None:
        """A map m with outer(m(x)) = self(x), or None if `outer` does not reach all of `self`.

        It goes from the inputs of `self` to those of `outer`. Of several it is the one that sets
        redundant bits of `outer` to zero.
        """
        outer = outer.transpose_outs(self.out_names)
        # Columns are comparable only where extents agree.
        widths = tuple((n, max(a, b)) for (n, a), (_, b) in zip(self.outs, outer.outs, strict=True))
        elimination = Elimination.of(LinearLayout(outer.ins, widths).columns)
        columns: list[int] = []
        for column in LinearLayout(self.ins, widths).columns:
            solution = elimination.solve(column)
            if solution is None:
                return None
            columns.append(solution)
        return self._from_columns(columns, self._in_widths(), outer._in_widths())

    def pseudo_invert(self) -> LinearLayout:
        """The right inverse of a surjective layout: for each output one of its inputs."""
        identity = LinearLayout.empty()
        for name, bits in self.outs:
            identity = identity * LinearLayout.identity(1 << bits, name, name)
        result = identity.invert_and_compose(self)
        if result is None:
            raise LayoutError(f"the layout is not surjective:\n{self}")
        return result

    def invert(self) -> LinearLayout:
        """The inverse of a bijective layout."""
        if not self.is_invertible:
            raise LayoutError(f"the layout is not invertible:\n{self}")
        return self.pseudo_invert()

    def divide_left(self, divisor: LinearLayout) -> LinearLayout | None:
        """A layout q with divisor * q = self, or None."""
        return self._divide(divisor, left=True)

    def divide_right(self, divisor: LinearLayout) -> LinearLayout | None:
        """A layout q with q * divisor = self, or None."""
        return self._divide(divisor, left=False)

    def _divide(self, divisor: LinearLayout, left: bool) -> LinearLayout | None:
        mine, theirs = dict(self.outs), dict(divisor.outs)
        if not set(theirs) <= set(mine) or not set(divisor.in_names) <= set(self.in_names):
            return None
        outs = [(name, bits - theirs.get(name, 0)) for name, bits in self.outs]
        ins: list[tuple[str, tuple[Basis, ...]]] = []
        for name, many in self.ins:
            count = len(many) - len(divisor.bases(name))
            if count < 0:
                return None
            kept = many[len(many) - count :] if left else many[:count]
            if left:
                kept = tuple(
                    tuple(v >> theirs.get(out, 0) for v, out in zip(b, mine, strict=True))
                    for b in kept
                )
            ins.append((name, kept))
        if any(bits < 0 for _, bits in outs):
            return None
        limits = [1 << bits for _, bits in outs]
        if any(
            v >= limit for _, many in ins for b in many for v, limit in zip(b, limits, strict=True)
        ):
            return None
        quotient = LinearLayout(tuple(ins), tuple(outs))
        product = divisor * quotient if left else quotient * divisor
        same = product.transpose_ins(self.in_names).transpose_outs(self.out_names) == self
        return quotient if same else None

    # Application

    def apply(self, **index: int | NDArray[np.integer]) -> dict[str, NDArray[np.int64]]:
        """The output indices of input indices, arrays that broadcast against one another.

        Input dimensions that are left out are 0.
        """
        unknown = set(index) - set(self.in_names)
        if unknown:
            raise LayoutError(f"the layout has no input {sorted(unknown)}")
        flat = self.apply_flat(**index)
        result: dict[str, NDArray[np.int64]] = {}
        for (name, bits), shift in zip(self.outs, self._shifts(), strict=True):
            result[name] = (flat >> shift) & ((1 << bits) - 1)
        return result

    def apply_flat(self, **index: int | NDArray[np.integer]) -> NDArray[np.int64]:
        """As `apply`, with all output dimensions in one number, the first in the lowest bits."""
        arrays = {name: np.asarray(value, dtype=np.int64) for name, value in index.items()}
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
        result = np.zeros(shape, dtype=np.int64)
        position = 0
        for name, many in self.ins:
            if name in arrays:
                tables = span(self.columns[position : position + len(many)])
                result ^= tables[arrays[name]]
            position += len(many)
        return result

    @cached_property
    def flat_table(self) -> NDArray[np.int64]:
        """int64[*in_shape]: the image of every input index, flat; read-only."""
        table = np.zeros((1,) * len(self.ins), dtype=np.int64)
        position = 0
        for axis, (_, many) in enumerate(self.ins):
            values = span(self.columns[position : position + len(many)])
            table = table ^ values.reshape((1,) * axis + (-1,) + (1,) * (len(self.ins) - axis - 1))
            position += len(many)
        table.setflags(write=False)
        return table

    @cached_property
    def table(self) -> NDArray[np.int64]:
        """int64[*in_shape, outs]: the image of every input index; read-only."""
        parts = [
            (self.flat_table >> shift) & ((1 << bits) - 1)
            for (_, bits), shift in zip(self.outs, self._shifts(), strict=True)
        ]
        table = np.stack(parts, axis=-1) if parts else self.flat_table[..., None][..., :0]
        table.setflags(write=False)
        return table

    def __str__(self) -> str:
        lines = [
            f"{name} = [{', '.join(str(list(basis)) for basis in many)}]" for name, many in self.ins
        ]
        lines.append("to " + " x ".join(f"{name}[{1 << bits}]" for name, bits in self.outs))
        return "\n".join(lines)


def unpack(column: int, outs: Iterable[tuple[str, int]]) -> Basis:
    """A flat number as one per output dimension."""
    basis = []
    for _, bits in outs:
        basis.append(column & ((1 << bits) - 1))
        column >>= bits
    return tuple(basis)


def _merged(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Names of both: new ones of `second` before the name that follows them there, if there is one.

    Where the two order common names differently, `first` is right.
    """
    result: list[str] = []
    one, two = list(first), list(second)
    while one:
        if two and two[0] not in first and one[0] in two:
            result.append(two.pop(0))
            continue
        name = one.pop(0)
        if name in two:
            two.remove(name)
        result.append(name)
    return result + two


def _same_names(names: Sequence[str], mine: Mapping[str, object]) -> None:
    if len(names) != len(mine) or set(names) != set(mine):
        raise LayoutError(f"dimensions {tuple(names)} are not those of the layout, {tuple(mine)}")


def standard_names(rank: int) -> tuple[str, ...]:
    """dim0, dim1, ...: the dimensions of a tensor."""
    return tuple(f"dim{i}" for i in range(rank))


def identity_nd(source: str, shape: Sequence[int], order: Sequence[int]) -> LinearLayout:
    """`source` counted through `shape`, dimension order[0] the fastest; outputs in that order."""
    layout = LinearLayout.empty()
    for dim in order:
        layout = layout * LinearLayout.identity(shape[dim], source, f"dim{dim}")
    return layout
