"""Random encodings, as text, with shapes that they can hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Case:
    """An encoding as text, and a shape."""

    encoding: str
    shape: tuple[int, ...]


def power(low: int, high: int) -> st.SearchStrategy[int]:
    """A power of two from 2**low to 2**high."""
    return st.integers(low, high).map(lambda e: 1 << e)


def numbers(values: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def bases(rows: Sequence[Sequence[int]]) -> str:
    return "[" + ", ".join(map(numbers, rows)) + "]"


@st.composite
def split(draw: st.DrawFn, total: int, rank: int) -> list[int]:
    """`total`, a power of two, as a product of `rank` powers of two."""
    parts = [1] * rank
    for _ in range(total.bit_length() - 1):
        parts[draw(st.integers(0, rank - 1))] *= 2
    return parts


@st.composite
def cga(draw: st.DrawFn, rank: int, free: Sequence[int] | None = None) -> tuple[str, list[int]]:
    """`, CGALayout = ...` or nothing, and how many parts each dimension has."""
    count = draw(st.sampled_from((0, 0, 0, 1, 2)))
    parts = [1] * rank
    rows = []
    for _ in range(count):
        row = [0] * rank
        dim = draw(st.sampled_from((*(free if free is not None else range(rank)), None)))
        if dim is not None:
            row[dim] = parts[dim]
            parts[dim] *= 2
        rows.append(row)
    return (f", CGALayout = {bases(rows)}" if count else ""), parts


def shapes(rank: int, low: int = 0, high: int = 7) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(power(low, high if rank < 3 else 5), min_size=rank, max_size=rank).map(tuple)


@st.composite
def blocked_text(draw: st.DrawFn, rank: int, one_block: bool = False) -> str:
    order = draw(st.permutations(range(rank)))
    size = [draw(power(0, 2)) for _ in range(rank)]
    threads = draw(split(32, rank))
    warps = draw(split(draw(power(0, 3)), rank))
    blocks = "" if one_block else draw(cga(rank))[0]
    return (
        f"#ttg.blocked<{{sizePerThread = {numbers(size)}, threadsPerWarp = {numbers(threads)}, "
        f"warpsPerCTA = {numbers(warps)}, order = {numbers(order)}{blocks}}}>"
    )


@st.composite
def blocked(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 4))
    return Case(draw(blocked_text(rank)), draw(shapes(rank)))


@st.composite
def mma_text(
    draw: st.DrawFn,
    rank: int,
    major: int | None = None,
    fp64: bool = False,
    one_block: bool = False,
) -> str:
    major = draw(st.sampled_from((2, 3))) if major is None else major
    if major == 3:
        warps = [4, draw(power(0, 1))]
        instruction = [16, draw(st.sampled_from((8, 16, 32, 64, 128, 256))), 16]
        rank = 2
    else:
        warps = draw(split(draw(power(0, 3)), rank))
        instruction = [1] * (rank - 2) + ([8, 8] if fp64 else [16, 8])
    blocks = "" if one_block else draw(cga(rank))[0]
    return (
        f"#ttg.nvidia_mma<{{versionMajor = {major}, versionMinor = 0, "
        f"warpsPerCTA = {numbers(warps)}{blocks}, instrShape = {numbers(instruction)}}}>"
    )


@st.composite
def mma(draw: st.DrawFn) -> Case:
    rank = draw(st.sampled_from((2, 2, 3)))
    major = 2 if rank == 3 else None
    return Case(draw(mma_text(rank, major)), draw(shapes(rank)))


@st.composite
def mfma_text(draw: st.DrawFn, rank: int) -> str:
    rows, columns = draw(st.sampled_from(((32, 32), (16, 16), (64, 4), (4, 64))))
    transposed = (rows, columns) == (64, 4) or draw(st.booleans())
    warps = draw(split(draw(power(0, 3)), rank))
    extra = ""
    if draw(st.booleans()):
        tiles = [1] * (rank - 2) + [draw(power(0, 1)), draw(power(0, 1))]
        extra += f", tilesPerWarp = {numbers(tiles)}"
    if (rows, columns) == (16, 16) and draw(st.booleans()):
        extra += ", elementBitWidth = 64"
    return (
        f"#ttg.amd_mfma<{{version = 4, warpsPerCTA = {numbers(warps)}, "
        f"instrShape = [{rows}, {columns}, 16], isTransposed = {str(transposed).lower()}{extra}}}>"
    )


@st.composite
def mfma(draw: st.DrawFn) -> Case:
    rank = draw(st.sampled_from((2, 2, 3)))
    return Case(draw(mfma_text(rank)), draw(shapes(rank)))


@st.composite
def wmma_text(draw: st.DrawFn, rank: int, version: int | None = None) -> str:
    version = draw(st.integers(1, 3)) if version is None else version
    shape = (16, 16, 16)
    if version == 3:
        shape = draw(st.sampled_from(((16, 16, 32), (16, 16, 128), (32, 16, 64))))
    rows: dict[str, list[list[int]]] = {"register": [], "warp": []}
    parts = [1] * rank
    for _ in range(draw(st.integers(0, 4))):
        row = [0] * rank
        dim = draw(st.integers(rank - 2, rank - 1))
        row[dim] = parts[dim]
        parts[dim] *= 2
        rows[draw(st.sampled_from(("register", "warp", "warp")))].append(row)
    register = f"register = {bases(rows['register'])}, " if rows["register"] else ""
    transposed = str(draw(st.booleans())).lower()
    return (
        f"#ttg.amd_wmma<{{version = {version}, isTranspose = {transposed}, "
        f"ctaLayout = {{{register}warp = {bases(rows['warp'])}}}, rank = {rank}, "
        f"instrShape = {numbers(shape)}}}>"
    )


@st.composite
def wmma(draw: st.DrawFn) -> Case:
    rank = draw(st.sampled_from((2, 2, 3)))
    return Case(draw(wmma_text(rank)), draw(shapes(rank)))


@st.composite
def dot_operand(draw: st.DrawFn) -> Case:
    rank = draw(st.sampled_from((2, 2, 3)))
    kind = draw(st.sampled_from(("blocked", "mma2", "mma3", "mfma", "wmma")))
    index = draw(st.integers(0, 1))
    width = f", kWidth = {draw(power(0, 3))}"
    match kind:
        case "blocked":
            parent, width = draw(blocked_text(rank)), ""
        case "mma2":
            parent = draw(mma_text(rank, 2, draw(st.booleans())))
        case "mma3":
            rank, index = 2, 0
            parent = draw(mma_text(2, 3))
        case "mfma":
            parent = draw(mfma_text(rank))
        case _:
            version = draw(st.integers(1, 3))
            parent = draw(wmma_text(rank, version))
            width = f", kWidth = {8 if version == 1 else draw(power(2, 3))}"
    text = f"#ttg.dot_op<{{opIdx = {index}, parent = {parent}{width}}}>"
    return Case(text, draw(shapes(rank)))


@st.composite
def linear_text(
    draw: st.DrawFn, shape: Sequence[int], swizzled_warps: bool = False, one_block: bool = False
) -> str:
    """A permutation of the bits of `shape`, with some bases of zero."""
    rank = len(shape)
    rows = []
    for dim, size in enumerate(shape):
        for bit in range(size.bit_length() - 1):
            rows.append([1 << bit if d == dim else 0 for d in range(rank)])
    rows = list(draw(st.permutations(rows)))
    names: dict[str, list[list[int]]] = {"register": [], "lane": [], "warp": [], "block": []}
    blocks = 0 if swizzled_warps or one_block else draw(st.integers(0, 1))
    if blocks:
        top = max(range(rank), key=lambda d: shape[d])
        row = [shape[d] // 2 if d == top else 0 for d in range(rank)]
        if row in rows:
            rows.remove(row)
            names["block"].append(row)
    while rows and len(names["lane"]) < 5:
        names["lane"].append(rows.pop())
    while len(names["lane"]) < 5:
        names["lane"].insert(draw(st.integers(0, len(names["lane"]))), [0] * rank)
    for row in rows:
        names[draw(st.sampled_from(("register", "register", "warp")))].append(row)
    if swizzled_warps and names["warp"] and names["register"]:
        other = draw(st.sampled_from(names["register"] + names["lane"]))
        names["warp"][-1] = [a | b for a, b in zip(names["warp"][-1], other, strict=True)]
    if draw(st.booleans()):
        names["warp"].append([0] * rank)
    kind = "generic_linear" if swizzled_warps else "linear"
    listed = ", ".join(f"{name} = {bases(many)}" for name, many in names.items())
    return f"#ttg.{kind}<{{{listed}}}>"


@st.composite
def linear(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    shape = draw(shapes(rank).filter(lambda s: math.prod(s) > 1))
    text = draw(linear_text(shape, draw(st.booleans())))
    return Case(text, draw(st.sampled_from((shape, tuple(2 * s for s in shape)))))


@st.composite
def sliced(draw: st.DrawFn) -> Case:
    depth = draw(st.integers(1, 2))
    rank = draw(st.integers(1, 2)) + depth
    kind = draw(st.sampled_from(("blocked", "blocked", "mma", "linear")))
    if kind == "mma":
        text = draw(mma_text(rank if rank < 3 else 3, 2))
        rank = min(rank, 3)
    elif kind == "linear":
        text = draw(linear_text(draw(shapes(rank, 1, 4))))
    else:
        text = draw(blocked_text(rank))
    for level in range(depth):
        dim = draw(st.integers(0, rank - level - 1))
        text = f"#ttg.slice<{{dim = {dim}, parent = {text}}}>"
    return Case(text, draw(shapes(rank - depth)))


@st.composite
def swizzled(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    order = draw(st.permutations(range(rank)))
    vec, per_phase, max_phase = draw(power(0, 3)), draw(power(0, 3)), draw(power(0, 3))
    kind = draw(st.sampled_from(("swizzled_shared", "swizzled_shared", "amd_rotating_shared")))
    blocks = "" if kind == "amd_rotating_shared" else draw(cga(rank))[0]
    text = (
        f"#ttg.{kind}<{{vec = {vec}, perPhase = {per_phase}, maxPhase = {max_phase}, "
        f"order = {numbers(order)}{blocks}}}>"
    )
    return Case(text, draw(shapes(rank)))


@st.composite
def nvmma(draw: st.DrawFn) -> Case:
    swizzle = draw(st.sampled_from((0, 32, 64, 128)))
    rank = draw(st.integers(1 if swizzle == 0 else 2, 3))
    width = draw(st.sampled_from((8, 16, 32)))
    transposed = draw(st.booleans())
    fp4 = width == 8 and draw(st.booleans())
    blocks, parts = draw(cga(rank))
    shape = [s * p for s, p in zip(draw(shapes(rank, 0, 9)), parts, strict=True)]
    inner = 0 if transposed else rank - 1
    if swizzle:
        shape[inner] = max(shape[inner], 8 * swizzle // width * parts[inner])
        outer = rank - 1 if transposed else 0
        shape[outer] = max(shape[outer], 8 * parts[outer])
    text = (
        f"#ttg.nvmma_shared<{{swizzlingByteWidth = {swizzle}, "
        f"transposed = {str(transposed).lower()}, elementBitWidth = {width}"
        + (", fp4Padded = true" if fp4 else "")
        + (blocks if blocks else f", rank = {rank}")
        + "}>"
    )
    return Case(text, tuple(shape))


@st.composite
def shared_linear(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    shape = draw(shapes(rank).filter(lambda s: math.prod(s) > 1))
    rows = []
    for dim, size in enumerate(shape):
        for bit in range(size.bit_length() - 1):
            rows.append([1 << bit if d == dim else 0 for d in range(rank)])
    rows = list(draw(st.permutations(rows)))
    for i in range(len(rows)):  # an upper triangular change of basis keeps it bijective
        if i and draw(st.booleans()):
            other = rows[draw(st.integers(0, i - 1))]
            rows[i] = [a ^ b for a, b in zip(rows[i], other, strict=True)]
    text = f"#ttg.shared_linear<{{offset = {bases(rows)}}}, alignment = 16>"
    return Case(text, shape)


@st.composite
def padded_text(draw: st.DrawFn, shape: tuple[int, ...]) -> str:
    rank = len(shape)
    pairs = draw(st.dictionaries(power(1, 6), power(0, 4), min_size=1, max_size=2))
    start = "#ttg.padded_shared<[" + ", ".join(f"{i}:+{p}" for i, p in pairs.items()) + "]"
    if draw(st.booleans()):
        order = draw(st.permutations(range(rank)))
        return f"{start} {{order = {numbers(order)}, shape = {numbers(shape)}}}>"
    rows = []
    for dim, size in enumerate(shape):
        for bit in range(size.bit_length() - 1):
            rows.append([1 << bit if d == dim else 0 for d in range(rank)])
    rows = draw(st.permutations(rows))
    return f"{start} {{offset = {bases(rows)}, block = []}}>"


@st.composite
def padded(draw: st.DrawFn) -> Case:
    shape = draw(shapes(draw(st.integers(1, 3))).filter(lambda s: math.prod(s) > 1))
    return Case(draw(padded_text(shape)), shape)


@st.composite
def partitioned(draw: st.DrawFn) -> Case:
    inner = draw(swizzled())
    rank = len(inner.shape)
    parts, groups, dim = draw(power(1, 2)), draw(power(0, 2)), draw(st.integers(0, rank - 1))
    shape = list(inner.shape)
    shape[dim] *= parts * groups
    text = (
        f"#ttg.partitioned_shared<{{numPartitions = {parts}, numGroups = {groups}, "
        f"partitionDim = {dim}, partitionLayout = {inner.encoding}}}>"
    )
    return Case(text, tuple(shape))


@st.composite
def tensor_memory(draw: st.DrawFn) -> Case:
    rows = draw(st.sampled_from((64, 128)))
    columns = draw(power(2, 8))
    pair = draw(st.booleans())
    fp4 = draw(st.booleans())
    stride = 1 if fp4 else draw(power(0, 2))
    blocks, parts = ", CGALayout = [[1, 0]]", [2, 1]
    if not pair:
        blocks, parts = draw(cga(2))
    shape = (rows * draw(power(0, 2)) * parts[0], columns * draw(power(0, 2)) * parts[1])
    text = f"#ttng.tensor_memory_encoding<blockM = {rows}, blockN = {columns}, colStride = {stride}"
    return Case(
        text
        + blocks
        + (", twoCTAs = true" if pair else "")
        + (", fp4Padded = true" if fp4 else "")
        + ">",
        shape,
    )


@st.composite
def scales(draw: st.DrawFn) -> Case:
    blocks, parts = draw(cga(2))
    order = draw(st.sampled_from(("", "blockRepOrder = kThenMn", "blockRepOrder = mnThenK")))
    entries = ", ".join(part for part in (blocks.removeprefix(", "), order) if part)
    shape = (32 * draw(power(0, 3)) * parts[0], draw(power(0, 4)) * parts[1])
    text = "#ttng.tensor_memory_scales_encoding<" + entries + ">"
    return Case(text, shape)


DISTRIBUTED = {
    "blocked": blocked(),
    "slice": sliced(),
    "linear": linear(),
    "dot_operand": dot_operand(),
    "nvidia_mma": mma(),
    "amd_mfma": mfma(),
    "amd_wmma": wmma(),
}
MEMORY = {
    "swizzled": swizzled(),
    "nvmma": nvmma(),
    "shared_linear": shared_linear(),
    "padded": padded(),
    "partitioned": partitioned(),
    "tensor_memory": tensor_memory(),
    "scales": scales(),
}
