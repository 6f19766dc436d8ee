"""Triton kernels whose TTIR the executor tests run (tests/data/ttir, one file each).

Run this file to write the texts again: `python tests/interp/kernels.py` (needs Triton, no GPU).
"""

from __future__ import annotations

import pathlib

import triton
import triton.language as tl


@triton.jit
def collatz(x, o, n, B: tl.constexpr):
    """Programs leave the loop after different numbers of iterations."""
    pid = tl.program_id(0)
    v = tl.load(x + pid)
    steps = 0
    while v != 1 and steps < 200:
        if v % 2 == 0:
            v = v // 2
        else:
            v = 3 * v + 1
        steps += 1
    tl.store(o + pid, steps)


@triton.jit
def ragged_sum(x, lengths, o, stride, B: tl.constexpr):
    """A loop whose trip count is loaded from memory, with a mask in its last iteration."""
    pid = tl.program_id(0)
    n = tl.load(lengths + pid)
    total = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        total += tl.load(x + pid * stride + i, mask=i < n, other=0.0)
    tl.store(o + pid, tl.sum(total, 0))


@triton.jit
def pick_pointer(x, y, o, n, B: tl.constexpr):
    """Programs read from different tensors, through a pointer chosen in a branch."""
    pid = tl.program_id(0)
    if pid % 3 == 0:
        p = x
    else:
        p = y
    i = pid * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(p + i, mask=m), mask=m)


@triton.jit
def early_return(x, o, n, B: tl.constexpr):
    """A return in the middle makes a control-flow graph."""
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    v = tl.load(x + pid)
    if v < 0:
        tl.store(o + i, tl.zeros((B,), tl.int32) - 1, mask=i < n)
        return
    w = v
    if v > 100:
        tl.store(o + i, tl.full((B,), 100, tl.int32), mask=i < n)
        return
    w += pid
    tl.store(o + i, tl.zeros((B,), tl.int32) + w, mask=i < n)


@triton.jit(noinline=True)
def _scaled(v, factor):
    r = v * factor
    if factor > 3:
        r += 1
    return r, factor * 2


@triton.jit
def calls(x, o, B: tl.constexpr):
    """A function that is not inlined, called with a different factor by each program."""
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    v, f = _scaled(tl.load(x + pid), pid)
    tl.store(o + i, v + f + tl.arange(0, B))


@triton.jit
def histogram_atomics(x, o, n, B: tl.constexpr):
    """Integer atomics on addresses that data choose."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.atomic_add(o + tl.load(x + i, mask=m, other=0), 1, mask=m)


@triton.jit
def float_atomics(x, o, n, B: tl.constexpr):
    """Two float atomics by each program: the order of programs decides the last bits."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(o + i % 4, v, mask=i < n)
    tl.atomic_add(o + i % 3, v * 0.5, mask=i < n)


@triton.jit
def slots(x, counter, o, n, B: tl.constexpr):
    """Programs take a slot by the result of an atomic."""
    pid = tl.program_id(0)
    at = tl.atomic_add(counter, 1)
    tl.store(o + at, tl.load(x + pid))


@triton.jit
def transpose(x, o, M, N, B: tl.constexpr):
    """Two-dimensional boxes with ragged edges."""
    i = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    j = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    m = (i < M) & (j < N)
    v = tl.load(x + i * N + j, mask=m)
    tl.store(o + j * M + i, v, mask=m)


@triton.jit
def gather(x, index, o, n, B: tl.constexpr):
    """Addresses from data."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    j = tl.load(index + i, mask=m, other=0)
    tl.store(o + i, tl.load(x + j, mask=m), mask=m)


@triton.jit
def _argmax_combine(a, i, b, j):
    take = (a > b) | ((a == b) & (i < j))
    return tl.where(take, a, b), tl.where(take, i, j)


@triton.jit
def _affine_combine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def combines(x, o, where, scan, B: tl.constexpr):
    """Reduce and scan with regions of the user's own."""
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + pid * B + i)
    best, at = tl.reduce((v, i), 0, _argmax_combine)
    tl.store(o + pid, best)
    tl.store(where + pid, at)
    _, b = tl.associative_scan((v * 0 + 2, v), 0, _affine_combine)
    tl.store(scan + pid * B + i, b)


@triton.jit
def descriptors(x, o, M, N, B: tl.constexpr):
    """Descriptors made on the device; blocks overhang the edges."""
    src = tl.make_tensor_descriptor(x, [M, N], [N, 1], [B, B])
    dst = tl.make_tensor_descriptor(o, [M, N], [N, 1], [B, B])
    i, j = tl.program_id(0) * B, tl.program_id(1) * B
    dst.store([i, j], src.load([i, j]) * 2)


@triton.jit
def neighbour(x, o, n, B: tl.constexpr):
    """In place with a halo: a race at block edges when x and o are one tensor."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    left = tl.load(x + i - 1, mask=(i > 0) & (i < n), other=0)
    tl.store(o + i, left, mask=i < n)


@triton.jit
def spin_lock(lock, acc, x, RELEASE: tl.constexpr):
    """A lock by compare-and-swap around a read-modify-write; without the release nobody gets in."""
    v = tl.load(x + tl.program_id(0))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(acc, tl.load(acc) + v)
    tl.debug_barrier()
    if RELEASE:
        tl.atomic_xchg(lock, 0)


@triton.jit
def message(data, flag, o, SEM: tl.constexpr):
    """Program 1 sends, program 0 receives: ordered by release and acquire, or not at all."""
    if tl.program_id(0) == 1:
        tl.store(data, 42)
        tl.atomic_xchg(flag, 1, sem=SEM)
    else:
        while tl.atomic_cas(flag, 1, 1, sem=SEM) != 1:
            pass
        tl.store(o, tl.load(data))


@triton.jit
def last_block(x, partial, count, o, n, B: tl.constexpr):
    """Whoever comes last adds up what all have stored."""
    pid = tl.program_id(0)
    tl.store(partial + pid, tl.sum(tl.load(x + pid * B + tl.arange(0, B)), 0))
    tl.debug_barrier()
    if tl.atomic_add(count, 1) == n - 1:
        i = tl.arange(0, B)
        tl.store(o, tl.sum(tl.load(partial + i, mask=i < n, other=0), 0))


@triton.jit
def counts_up(x, o):
    """A loop that ends only if x is not zero."""
    i = 0
    while i >= 0:
        i += tl.load(x)
        if i > 100:
            i = -1
    tl.store(o, i)


@triton.jit
def one_place(x, o, n, B: tl.constexpr, MASK: tl.constexpr):
    """All lanes store to o[0]; different values unless all but one are masked off."""
    i = tl.arange(0, B)
    v = tl.load(x + i)
    if MASK:
        tl.store(o + i * 0, v, mask=i == 3)
    else:
        tl.store(o + i * 0, v)


@triton.jit
def quotient(x, y, o, n, B: tl.constexpr, MASK: tl.constexpr):
    """x // y, where y may be zero; the mask leaves those lanes out."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    d = tl.load(y + i)
    q = tl.load(x + i) // d
    if MASK:
        tl.store(o + i, q, mask=d != 0)
    else:
        tl.store(o + i, q)


@triton.jit
def far_row(x, o, stride, B: tl.constexpr, WIDE: tl.constexpr):
    """row * stride in 32 or in 64 bits."""
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    i = tl.arange(0, B)
    tl.store(o + tl.program_id(0) * B + i, tl.load(x + row * stride + i, mask=row * stride < 1000))


@triton.jit
def through_table(table, o, B: tl.constexpr):
    """Rows behind a table of pointers."""
    pid = tl.program_id(0)
    p = tl.load(table + pid).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, B)
    tl.store(o + pid * B + i, tl.load(p + i))


@triton.jit
def relay(x, buffer, full, empty, o, n, ACK: tl.constexpr):
    """Program 0 hands n values to program 1 through two slots; unless it waits until a slot has
    been read (ACK), it may overwrite what program 1 still reads."""
    for t in range(n):
        if tl.program_id(0) == 0:
            if ACK:
                while tl.atomic_add(empty, 0, sem="acquire") < t - 1:
                    pass
            tl.store(buffer + t % 2, tl.load(x + t))
            tl.atomic_xchg(full, t + 1, sem="release")
        else:
            while tl.atomic_add(full, 0, sem="acquire") < t + 1:
                pass
            tl.store(o + t, tl.load(buffer + t % 2))
            tl.atomic_xchg(empty, t + 1, sem="release")


@triton.jit
def semaphore(free, acc):
    """Adds up inside a semaphore: a lock if one program may enter, a race if two may."""
    entered = 0
    while entered == 0:
        seen = tl.atomic_add(free, 0, sem="relaxed")
        if seen > 0:  # noqa: SIM102 (`and` would evaluate both)
            if tl.atomic_cas(free, seen, seen - 1, sem="acquire") == seen:
                entered = 1
    tl.store(acc, tl.load(acc) + 1)
    tl.atomic_add(free, 1, sem="release")


P, Q = "*fp32", "*i32"
RELAY = {"x": Q, "buffer": Q, "full": Q, "empty": Q, "o": Q, "n": "i32"}
KERNELS = {
    "collatz": (collatz, {"x": Q, "o": Q, "n": "i32"}, {"B": 1}),
    "ragged_sum": (ragged_sum, {"x": P, "lengths": Q, "o": P, "stride": "i32"}, {"B": 16}),
    "pick_pointer": (pick_pointer, {"x": P, "y": P, "o": P, "n": "i32"}, {"B": 8}),
    "early_return": (early_return, {"x": Q, "o": Q, "n": "i32"}, {"B": 8}),
    "calls": (calls, {"x": Q, "o": Q}, {"B": 8}),
    "histogram_atomics": (histogram_atomics, {"x": Q, "o": Q, "n": "i32"}, {"B": 16}),
    "float_atomics": (float_atomics, {"x": P, "o": P, "n": "i32"}, {"B": 16}),
    "slots": (slots, {"x": Q, "counter": Q, "o": Q, "n": "i32"}, {"B": 1}),
    "transpose": (transpose, {"x": P, "o": P, "M": "i32", "N": "i32"}, {"B": 8}),
    "gather": (gather, {"x": P, "index": Q, "o": P, "n": "i32"}, {"B": 16}),
    "combines": (combines, {"x": P, "o": P, "where": Q, "scan": P}, {"B": 16}),
    "descriptors": (descriptors, {"x": P, "o": P, "M": "i32", "N": "i32"}, {"B": 8}),
    "spin_lock": (spin_lock, {"lock": Q, "acc": P, "x": P}, {"RELEASE": True}),
    "spin_lock_kept": (spin_lock, {"lock": Q, "acc": P, "x": P}, {"RELEASE": False}),
    "message": (message, {"data": Q, "flag": Q, "o": Q}, {"SEM": "acq_rel"}),
    "message_relaxed": (message, {"data": Q, "flag": Q, "o": Q}, {"SEM": "relaxed"}),
    "last_block": (last_block, {"x": P, "partial": P, "count": Q, "o": P, "n": "i32"}, {"B": 16}),
    "counts_up": (counts_up, {"x": Q, "o": Q}, {}),
    "one_place": (one_place, {"x": Q, "o": Q, "n": "i32"}, {"B": 16, "MASK": False}),
    "one_place_masked": (one_place, {"x": Q, "o": Q, "n": "i32"}, {"B": 16, "MASK": True}),
    "quotient": (quotient, {"x": Q, "y": Q, "o": Q, "n": "i32"}, {"B": 8, "MASK": False}),
    "quotient_masked": (quotient, {"x": Q, "y": Q, "o": Q, "n": "i32"}, {"B": 8, "MASK": True}),
    "far_row": (far_row, {"x": P, "o": P, "stride": "i32"}, {"B": 8, "WIDE": False}),
    "far_row_wide": (far_row, {"x": P, "o": P, "stride": "i32"}, {"B": 8, "WIDE": True}),
    "through_table": (through_table, {"table": "*i64", "o": P}, {"B": 8}),
    "neighbour": (neighbour, {"x": Q, "o": Q, "n": "i32"}, {"B": 8}),
    "relay": (relay, RELAY, {"ACK": True}),
    "relay_hasty": (relay, RELAY, {"ACK": False}),
    "semaphore": (semaphore, {"free": Q, "acc": Q}, {}),
}


def main() -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    here = pathlib.Path(__file__).resolve()
    out = here.parent.parent / "data" / "ttir"
    for name, (kernel, signature, constants) in KERNELS.items():
        full = signature | dict.fromkeys(constants, "constexpr")
        source = ASTSource(kernel, full, constants)
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
        package = pathlib.Path(triton.__file__).parent.parent
        text = compiled.asm["ttir"].replace(str(here), "kernels.py")
        text = text.replace(f"{package}/", "")
        (out / f"{name}.ttir").write_text(text)


if __name__ == "__main__":
    main()
