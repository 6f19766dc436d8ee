"""Modifiers that many instruction families share. Rules: PTX ISA 9.1, section 9.7."""

from __future__ import annotations

import re


def words(*texts: str | frozenset[str]) -> frozenset[str]:
    """The union of sets and of words separated by spaces."""
    found: set[str] = set()
    for text in texts:
        found |= set(text.split()) if isinstance(text, str) else text
    return frozenset(found)


BITS = words("b8 b16 b32 b64 b128")
INT = words("s8 s16 s32 s64 u8 u16 u32 u64")
PACKED_INT = words("u16x2 s16x2 u8x4 s8x4 u8x2 s8x2")
HALF = words("f16 f16x2 bf16 bf16x2")
FLOAT = words("f16 bf16 f32 f64 f32x2 f16x2 bf16x2 tf32")
FP8 = words(
    "e4m3 e5m2 e2m1 e2m3 e3m2 ue8m0 ue4m3 e4m3x2 e5m2x2 e2m1x2 e2m3x2 e3m2x2 ue8m0x2 "
    "e4m3x4 e5m2x4 e2m1x4 e2m3x4 e3m2x4 s2f6x2"
)
ANY = words(BITS, INT, "f16 bf16 f32 f64 f16x2 bf16x2 f32x2")
ROUND = words("rn rz rm rp rna rs rni rzi rmi rpi")
COMPARE = words("eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan")
LOGIC = words("and or xor")
SPACES = words(
    "global shared shared::cta shared::cluster local param param::entry param::func const"
)
SCOPES = words("cta cluster gpu sys")
ORDERS = words("weak relaxed acquire release acq_rel sc volatile mmio")
CACHE = words(
    "ca cg cs lu cv wb wt nc L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last "
    "L1::no_allocate L2::evict_normal L2::evict_first L2::evict_last L2::cache_hint L2::64B "
    "L2::128B L2::256B evict_normal evict_first evict_last unified"
)
VECTOR = words("v2 v4 v8")
COLLECTIVE = words("sync aligned")
TX = words("mbarrier::complete_tx::bytes multicast::cluster multicast::cluster::all L2::cache_hint")
GROUP = words("cta_group::1 cta_group::2")
SHAPE = re.compile(r"m\d+n\d+(?:k\d+)?")
