"""Tensor maps of a running kernel: reading them, and replacing their fields.

Maps are 128 bytes in memory everywhere (`tensorcore.tensor_maps` says how), so that generic copies
and `tensormap.replace` act on them like on a card. PTX ISA 9.1, sections 9.7.9.28 and 9.7.13.4.
"""

from __future__ import annotations

import numpy as np

from xttir.analyses.events import Access, Footprint, Mode, Proxy, ProxyFence, Scope, Sem, Space
from xttir.diagnostics import Kind
from xttir.interp.ptx.instruction import UNKNOWN, Imm, Mem, meaning
from xttir.interp.ptx.step import Step
from xttir.interp.ptx.units import Skip, check_aligned, memory_operand, units
from xttir.interp.tensorcore import tensor_maps as maps
from xttir.interp.tensorcore.tensor_maps import TensorMap


def read_maps(step: Step, operand: Mem) -> list[tuple[TensorMap, np.ndarray, Footprint | None]]:
    """The maps that the lanes name: (map, which lanes, read of it through the tensormap proxy).

    There is a footprint (rows: those lanes) only where the map can be written.
    """
    address = step.address(operand)
    check_aligned(step, address, 64, "address of a tensor map")
    n = step.lanes.size
    image, writable = step.read_map(address)
    if image is UNKNOWN:
        raise step.unsupported("a tensor map that depends on tensor data")
    assert isinstance(image, np.ndarray)
    if image.shape[0] == 1:
        distinct, index = image, np.zeros(n, np.int64)
    else:
        distinct, index = np.unique(image, axis=0, return_inverse=True)
        index = index.reshape(-1)
    starts = np.broadcast_to(address, (n,))[:, None]
    out = []
    for i, one in enumerate(distinct):
        mine = np.flatnonzero(index == i)
        place = None
        if writable:
            place = Footprint(
                Space.GLOBAL, Mode.READ, starts[mine], maps.SIZE, proxy=Proxy.TENSORMAP
            )
        try:
            out.append((maps.decode(one.tobytes()), mine, place))
        except ValueError as error:
            raise Skip(
                step, Kind.MISUSE, f"no valid tensor map: {error}", step.lanes[mine]
            ) from None
    return out


@meaning("tensormap.replace")
def tensormap_replace(step: Step) -> None:
    ins = step.ins
    name = next((w for w in ins.modifiers if w in maps.FIELDS), None)
    if name is None:
        raise step.unsupported("tensormap.replace of an unknown field")
    ordinal, value_at = 0, 1
    if len(ins.src) == 3:
        ordinal, value_at = int(step.integers(ins.src[1])[0]), 2
    value_type = "u64" if "b64" in ins.modifiers else "u32"
    operand = ins.src[value_at]
    if isinstance(operand, Imm):
        value = np.array([int(operand.value)], np.int64)
    else:
        value = step.integers(operand, value_type)
    at, size = maps.field_place(name, ordinal)
    place = _place(step, memory_operand(step, ins.src[0]))
    if place is None:
        return
    field = Footprint(
        place.space,
        Mode.WRITE,
        np.where(place.starts < 0, -1, place.starts + at),
        size,
        cta=place.cta,
    )
    data = value.astype(np.int64).view(np.uint8).reshape(-1, 8)[:, None, :size]
    step.memory.store(field, data)
    step.emit(Access(ins.index, step.lanes, (place,)))


def _place(step: Step, operand: Mem) -> Footprint | None:
    """The 128 bytes of the map, one row a lane."""
    n = step.lanes.size
    address = step.address(operand)
    try:
        check_aligned(step, address, maps.SIZE, "address of a tensor map")
    except Skip:
        return None
    if "global" in step.ins.modifiers:
        return Footprint(
            Space.GLOBAL, Mode.WRITE, np.broadcast_to(address, (n,))[:, None], maps.SIZE
        )
    offset, block = step.shared(address)
    return Footprint(
        Space.SHARED,
        Mode.WRITE,
        np.broadcast_to(offset, (n,))[:, None],
        maps.SIZE,
        cta=np.broadcast_to(block, (n,))[:, None],
    )


_SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.SYS}


@meaning("tensormap.cp_fenceproxy")
def cp_fenceproxy(step: Step) -> None:
    """A warp copies a map from shared to global memory, then releases it to the tensormap proxy."""
    ins, n = step.ins, step.lanes.size
    try:
        group = units(step, 32)
        target = step.address(memory_operand(step, ins.src[0]))
        offset, block = step.shared(step.address(memory_operand(step, ins.src[1])))
        check_aligned(step, target, maps.SIZE, "address of a tensor map")
        check_aligned(step, offset, maps.SIZE, "address of a tensor map")
    except Skip:
        return
    del group
    first = (np.arange(n) % 32 == 0)[:, None]
    source = np.where(first, np.broadcast_to(offset, (n,))[:, None], -1)
    where = np.where(first, np.broadcast_to(target, (n,))[:, None], -1)
    own = np.broadcast_to(block, (n,))[:, None]
    read = Footprint(Space.SHARED, Mode.READ, source, maps.SIZE, cta=own)
    write = Footprint(Space.GLOBAL, Mode.WRITE, where, maps.SIZE)
    step.memory.store(write, step.memory.load(read))
    step.emit(Access(ins.index, step.lanes, (read, write)))
    scope = next(s for word, s in _SCOPES.items() if word in ins.modifiers)
    step.emit(
        ProxyFence(
            ins.index,
            step.lanes,
            Proxy.TENSORMAP,
            frozenset({Space.GLOBAL}),
            Sem.RELEASE,
            scope,
        )
    )
