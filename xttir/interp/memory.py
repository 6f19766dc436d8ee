"""Memory as kernels see it: byte-addressed storages, and regions that pointers may reach.

A pointer that came from a tensor argument keeps its region (provenance): bounds are those of the
elements the tensor's view owns, so an access that lands in another tensor is still out of bounds.
A pointer without provenance (`tt.int_to_ptr`, a pointer loaded from memory) is an absolute
address, looked up among all storages.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from xttir.interp.affine import Index
from xttir.interp.launch import Storage, TensorArg


class Region:
    """The bytes one tensor argument lets a pointer reach.

    `low`, `high`: byte range of the view relative to its element 0. `owned`: bool[high - low] or
    None if the view owns every byte of the range (a view with gaps owns only its elements).
    """

    __slots__ = ("_owned", "address", "base", "gaps", "high", "low", "name", "storage", "tensor")

    def __init__(self, tensor: TensorArg):
        self.tensor = tensor
        self.name = tensor.name
        self.storage = tensor.storage
        self.base = tensor.offset
        self.address = tensor.storage.address + tensor.offset
        itemsize = tensor.dtype.itemsize
        if any(n == 0 for n in tensor.shape):
            self.low = self.high = 0
            self.gaps = False
        else:
            reach = [s * (n - 1) for n, s in zip(tensor.shape, tensor.strides, strict=True)]
            self.low = sum(r for r in reach if r < 0) * itemsize
            self.high = (sum(r for r in reach if r > 0) + 1) * itemsize
            self.gaps = not _is_dense(tensor.shape, tensor.strides)
        self._owned: np.ndarray | None = None

    @property
    def owned(self) -> np.ndarray | None:
        """bool[high - low]: which bytes of the range belong to elements; None if all do."""
        if not self.gaps:
            return None
        if self._owned is None:
            itemsize = self.tensor.dtype.itemsize
            owned = np.zeros(self.high - self.low, bool)
            view = np.ndarray(
                (*self.tensor.shape, itemsize),
                bool,
                buffer=owned.data,
                offset=-self.low,
                strides=(*(s * itemsize for s in self.tensor.strides), 1),
            )
            view[...] = True
            self._owned = owned
        return self._owned

    def describe(self) -> str:
        """How reports name it: "`x` (float32[4, 8])"."""
        shape = ", ".join(map(str, self.tensor.shape))
        text = f"`{self.name}` ({self.tensor.dtype.name}[{shape}]"
        if self.gaps or not _is_contiguous(self.tensor.shape, self.tensor.strides):
            text += f" with strides ({', '.join(map(str, self.tensor.strides))})"
        return text + ")"

    def index_text(self, element: int) -> str:
        """An element offset from element 0 as the user would write it: "x[3, 7]" or "x[1000]"."""
        shape, strides = self.tensor.shape, self.tensor.strides
        if len(shape) > 1 and not self.gaps and _is_contiguous(shape, strides):
            inside = 0 <= element < int(np.prod(shape))
            if inside:
                return f"{self.name}[{', '.join(map(str, np.unravel_index(element, shape)))}]"
            return f"{self.name}.view(-1)[{element}]"
        if len(shape) == 1 and strides[0] == 1:
            return f"{self.name}[{element}]"
        return f"{self.name} + {element}"


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and s != expected:
            return False
        expected *= n
    return True


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the view owns every element between its first and its last."""
    reach = 1
    for stride, extent in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride > reach:
            return False
        reach = max(reach, stride * (extent - 1) + reach)
    return True


class Pointer:
    """A tensor of pointers: byte offsets into one region, or absolute addresses (region None).

    `offset`: an int64 `Index`, or int64 array (b, *s) in the form values have.
    """

    __slots__ = ("offset", "region")

    def __init__(self, region: Region | None, offset: Index | np.ndarray):
        self.region = region
        self.offset = offset

    def take(self, programs: np.ndarray) -> Pointer:
        offset = self.offset
        if isinstance(offset, Index):
            return Pointer(self.region, offset.take(programs))
        return Pointer(self.region, offset[programs] if offset.shape[0] > 1 else offset)

    def dense(self) -> Pointer:
        return self

    def dense_offset(self) -> np.ndarray:
        """int64 (b, *s): offsets in the region."""
        return self.offset.dense() if isinstance(self.offset, Index) else self.offset

    def addresses(self) -> np.ndarray:
        """int64 (b, *s): absolute addresses."""
        offset = self.dense_offset()
        return offset if self.region is None else offset + np.int64(self.region.address)


@dataclass
class Memory:
    """All memory of one launch.

    `regions`: one for every tensor argument. `more`: gives storages beyond the arguments' own, for
    pointers that are looked up by address.
    """

    regions: list[Region] = field(default_factory=list)
    more: Callable[[], Iterable[Storage]] | None = None
    version: int = 0
    """Counts changes of memory: programs that spin without a change wait for others."""

    _table: tuple[np.ndarray, np.ndarray, list[Storage]] | None = None
    _whole: dict[int, Region] = field(default_factory=dict)

    def add(self, region: Region) -> Region:
        """Take in memory that the launch itself allocated."""
        self.regions.append(region)
        self._table = None
        return region

    def table(self) -> tuple[np.ndarray, np.ndarray, list[Storage]]:
        """Every storage by address: (starts int64[n], ends int64[n], storages)."""
        if self._table is None:
            found: dict[int, Storage] = {}
            for region in self.regions:
                found[id(region.storage)] = region.storage
            if self.more is not None:
                for storage in self.more():
                    found[id(storage)] = storage
            storages = sorted(found.values(), key=lambda s: s.address)
            starts = np.array([s.address for s in storages], np.int64)
            ends = starts + np.array([s.bytes.size for s in storages], np.int64)
            self._table = (starts, ends, storages)
        return self._table

    def whole_region(self, storage: Storage) -> Region:
        """The region of a whole storage, for accesses by address. It takes the name and type of
        the one tensor argument that covers it, if there is one."""
        key = id(storage)
        if key not in self._whole:
            covering = [r for r in self.regions if r.storage is storage]
            if len(covering) == 1 and not covering[0].gaps:
                tensor = covering[0].tensor
                whole = covering[0].low == 0 and covering[0].high == storage.bytes.size
                if whole and tensor.offset == 0:
                    self._whole[key] = covering[0]
                    return covering[0]
            name = covering[0].name if covering else (os.path.basename(storage.created) or "memory")
            dtype = covering[0].tensor.dtype if covering else np.dtype(np.uint8)
            size = storage.bytes.size // dtype.itemsize
            tensor = TensorArg(name, storage, 0, (size,), (1,), dtype)
            self._whole[key] = Region(tensor)
        return self._whole[key]

    def segment(self, addresses: np.ndarray) -> tuple[np.ndarray, list[Storage]]:
        """For absolute addresses, the position of the storage each lies in (-1: in none)."""
        starts, ends, storages = self.table()
        if not storages:
            return np.full(addresses.shape, -1), storages
        where = np.searchsorted(starts, addresses, side="right") - 1
        inside = (where >= 0) & (addresses < ends[np.maximum(where, 0)])
        return np.where(inside, where, -1), storages
