"""What other releases of Triton spell differently, turned into the spelling of 3.9 when read.

Differences between 3.8.0 and 3.9.0, in all of `tt`, `ttg`, `ttng`, `nvws`, `gluon` and `tti`:

- Loads, stores and asynchronous copies had two enums, `cacheModifier = cg` and `evictionPolicy =
  evict_last` (properties `cache` and `evict` in the generic form). Since 3.9 they have one
  attribute, `cachePolicy = #tt.cache_policy<...>` (`HINTED`).
- Attributes that have another name (`RENAMED`), and address spaces that were numbers
  (`ADDRESS_SPACES`).
- Ops that 3.9 has no more (`REMOVED`) parse and print, but Triton 3.9 does not read them; 3.8 does
  not read those that are new in 3.9 (`ADDED`).
- Verifiers are those of 3.9, which asks more in places (tensor memory on targets that have it,
  footprints of `ttg.memdesc_reinterpret`, layouts of `tt.broadcast` and `tt.cat`).
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

from xttir.dialects.tt.enums import CacheModifier, EvictionPolicy, PtrAddrSpace
from xttir.dialects.tt.types import CachePolicyAttr

HINTED = frozenset(
    (
        "tt.load",
        "tt.store",
        "tt.descriptor_load",
        "ttg.async_copy_global_to_local",
        "ttng.async_tma_copy_global_to_local",
        "nvws.descriptor_load",
    )
)
"""Ops that had `cache` and `evict` up to 3.8."""

RENAMED: dict[str, dict[str, str]] = {"ttng.tmem_subslice": {"N": "offset"}}
"""Per op: the names that attributes had in 3.8, and those that they have."""

ADDRESS_SPACES = {0: PtrAddrSpace.DESCRIPTOR, 1: PtrAddrSpace.GLOBAL, 4: PtrAddrSpace.CONSTANT}
"""`!tt.ptr<f32, 1>` of 3.8: the numbers that have a name since."""

REMOVED = frozenset(
    (
        "ttng.cluster_arrive",
        "ttng.cluster_wait",
        "tti.experimental_gsan_atomic_tensor_access",
        "tti.experimental_gsan_tensordesc_info",
    )
)
"""Ops of 3.8 that 3.9 has no more."""

ADDED = frozenset(
    (
        "nvws.aref.phi",
        "nvws.clc_try_cancel",
        "tt.approx_divf",
        "tt.atomic_load",
        "tt.atomic_poll",
        "tt.atomic_store",
        "tt.grid_dependency_launch_dependents",
        "tt.grid_dependency_wait",
        "ttg.inline_asm",
        "tti.experimental_gsan_atomic_load",
        "tti.experimental_gsan_atomic_poll",
        "tti.experimental_gsan_atomic_store",
        "tti.experimental_gsan_atomic_tensordesc_access",
        "tti.experimental_gsan_cluster_barrier_init",
        "tti.experimental_gsan_cluster_barrier_sync",
        "tti.experimental_gsan_grid_dependency_wait",
        "tti.experimental_gsan_indexed_tensordesc_access",
        "tti.experimental_gsan_kernel_exit",
        "tti.experimental_gsan_mbarrier_arrive",
        "tti.experimental_gsan_mbarrier_init",
        "tti.experimental_gsan_mbarrier_table_init",
        "tti.experimental_gsan_mbarrier_wait",
        "tti.experimental_gsan_tensordesc_access",
        "tti.experimental_memory_offset_to_i32",
        "ttng.clc_try_cancel_sync",
        "ttng.tmem_wait",
    )
)
"""Ops that 3.9 has and 3.8 has not."""


def cache_policy(cache: CacheModifier, evict: EvictionPolicy) -> CachePolicyAttr | None:
    """The attribute of 3.9 for hints of 3.8; None where both say nothing."""
    if cache == CacheModifier.NONE and evict == EvictionPolicy.NORMAL:
        return None
    return CachePolicyAttr.new((StringAttr(cache.keyword), StringAttr(evict.keyword)))


def upgrade(op: Operation) -> None:
    """Turn the properties of an op of an older release into those of 3.9, in place."""
    names = RENAMED.get(op.name)
    if names is not None:
        for holder in (op.properties, op.attributes):
            for old, new in names.items():
                if old in holder:
                    op.properties[new] = holder.pop(old)
    if op.name not in HINTED:
        return
    for holder in (op.properties, op.attributes):
        if "cache" in holder or "evict" in holder:
            found: dict[str, Attribute] = {
                k: holder.pop(k) for k in ("cache", "evict") if k in holder
            }
            cache, evict = found.get("cache"), found.get("evict")
            policy = cache_policy(
                CacheModifier.of(cache) if isinstance(cache, IntegerAttr) else CacheModifier.NONE,
                EvictionPolicy.of(evict)
                if isinstance(evict, IntegerAttr)
                else EvictionPolicy.NORMAL,
            )
            if policy is not None:
                op.properties["cachePolicy"] = policy


@irdl_custom_directive
class CacheHints(CustomDirective):
    """`custom<CacheHints>()`: the keywords of 3.8 in the pretty form; never printed."""

    KEYWORDS: ClassVar = ("cacheModifier", "evictionPolicy")

    def parse(self, parser: Parser, state: ParsingState) -> None:
        cache, evict = CacheModifier.NONE, EvictionPolicy.NORMAL
        while True:
            if parser.parse_optional_keyword("cacheModifier"):
                parser.parse_punctuation("=")
                word = parser.parse_keyword_in([case.keyword for case in CacheModifier])
                cache = CacheModifier.of_keyword(word) or cache
            elif parser.parse_optional_keyword("evictionPolicy"):
                parser.parse_punctuation("=")
                word = parser.parse_keyword_in([case.keyword for case in EvictionPolicy])
                evict = EvictionPolicy.of_keyword(word) or evict
            else:
                break
        policy = cache_policy(cache, evict)
        if policy is not None:
            state.properties["cachePolicy"] = policy

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        pass

    def can_parse_empty(self) -> bool:
        return True


@irdl_custom_directive
class OldNames(CustomDirective):
    """`custom<OldNames>()`, after the dictionary: its attributes of 3.8 get the names of 3.9."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        for names in RENAMED.values():
            for old, new in names.items():
                if old in state.attributes and new not in state.properties:
                    state.properties[new] = state.attributes.pop(old)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        pass

    def can_parse_empty(self) -> bool:
        return True
