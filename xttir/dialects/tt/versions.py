"""What other releases of Triton spell differently, turned into the spelling of 3.9 when read.

Up to 3.8, loads, stores and asynchronous copies had two enums, `cacheModifier = cg` and
`evictionPolicy = evict_last` (properties `cache` and `evict` in the generic form). Since 3.9 they
have one attribute, `cachePolicy = #tt.cache_policy<...>`. Nothing else is known to differ between
the TTIR of 3.8.0 and that of 3.9.0, other than ops that are new.
"""

from __future__ import annotations

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

from xttir.dialects.tt.enums import CacheModifier, EvictionPolicy
from xttir.dialects.tt.types import CachePolicyAttr

HINTED = frozenset(
    (
        "tt.load",
        "tt.store",
        "tt.descriptor_load",
        "ttg.async_copy_global_to_local",
        "ttng.async_tma_copy_global_to_local",
    )
)
"""Ops that had `cache` and `evict` up to 3.8."""


def cache_policy(cache: CacheModifier, evict: EvictionPolicy) -> CachePolicyAttr | None:
    """The attribute of 3.9 for hints of 3.8; None where both say nothing."""
    if cache == CacheModifier.NONE and evict == EvictionPolicy.NORMAL:
        return None
    return CachePolicyAttr.new((StringAttr(cache.keyword), StringAttr(evict.keyword)))


def upgrade(op: Operation) -> None:
    """Turn the properties of an op of an older release into those of 3.9, in place."""
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
