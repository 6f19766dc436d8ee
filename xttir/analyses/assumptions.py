"""What a verdict on a PTX kernel rests on, beside the rules that the PTX text states.

Where the text is silent or practice goes beyond it, a choice was made; it is listed with a verdict
when the kernel has instructions that it concerns. `strict` leaves out what only practice grants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from xttir.analyses.events import Source


@dataclass(frozen=True)
class Choice:
    """`text` holds for kernels with instructions that match `concerns`. `practice`: what the letter
    of the rules does not grant."""

    concerns: re.Pattern[str]
    text: str
    practice: bool = False


def _choice(concerns: str, text: str, practice: bool = False) -> Choice:
    return Choice(re.compile(concerns), text, practice)


CHOICES: tuple[Choice, ...] = (
    _choice(
        r"mbarrier\.(try|test)_wait\.parity",
        "a wait for parity 1 on a fresh mbarrier returns at once",
    ),
    _choice(
        r"mbarrier\.\w+[\w.:]*expect_tx|mbarrier\.expect_tx",
        "bytes of a copy may be counted in pieces of any multiple of 16, in any order",
    ),
    _choice(
        r"cp\.async\.bulk\.tensor",
        "a tensor copy writes and counts its whole box, also what lies outside of the tensor",
    ),
    _choice(
        r"st\.async|red\.async",
        "st.async and red.async to shared memory belong to the generic proxy",
    ),
    _choice(
        r"mapa|shared::cluster|barrier\.cluster",
        "a shared::cluster address is the offset plus the rank of the block times 2**24",
    ),
    _choice(r"elect\.sync", "elect.sync picks the same lane for the same mask every time"),
    _choice(
        r"wgmma\.",
        "a wgmma group is complete for the whole warpgroup, and wgmma reads shared memory after "
        "earlier waits of its warps",
        practice=True,
    ),
    _choice(
        r"^(@\S+\s+)?(membar|fence\.(sc|acq_rel|acquire|release))\b",
        "a fence counts for atomics of other threads of its block that a barrier or bar.warp.sync "
        "puts after it (before it, to acquire) (--strict asks for a fence in the atomic's thread)",
        practice=True,
    ),
    _choice(
        r"griddepcontrol\.wait",
        "grids that this one depends on are over, and their writes visible, when "
        "griddepcontrol.wait returns; nothing before it reads what they write",
    ),
    _choice(
        r"griddepcontrol\.launch_dependents",
        "grids that depend on this one touch what it touches only after their griddepcontrol.wait",
    ),
    _choice(
        r"tcgen05\.commit",
        "arrivals of tcgen05.commit happen in the order of the commits of a thread",
    ),
    _choice(
        r"tcgen05\.(mma|cp|ld|st)",
        "tcgen05 operations begin after the earlier instructions of their thread",
        practice=True,
    ),
    _choice(
        r"tcgen05\.(mma|cp|ld|st)",
        "acquire and release stand for tcgen05.fence (--strict asks for the fences)",
        practice=True,
    ),
    _choice(
        r"cp\.async\.bulk|tcgen05|wgmma",
        "a generic read before an asynchronous write needs order and no proxy fence (--strict asks "
        "for the fence)",
        practice=True,
    ),
    _choice(
        r"cp\.async\.c[ag]",
        "wgmma and tcgen05 see what an ordered cp.async has copied without a proxy fence (--strict "
        "asks for the fence)",
        practice=True,
    ),
    _choice(
        r"cp\.async\.bulk",
        "an asynchronous write over a generic write that an ordered generic read has seen needs no "
        "proxy fence (--strict asks for the fence)",
        practice=True,
    ),
    _choice(
        r"cp\.async\.bulk.*multicast|cta_group::2",
        "asynchronous writes of another block that complete on an mbarrier are visible to "
        "asynchronous reads of who waits on it",
        practice=True,
    ),
)


def choices(instructions: Iterable[Source], *, strict: bool = False) -> list[str]:
    """The choices that concern these instructions, in order."""
    texts = {source.text for source in instructions}
    return [
        choice.text
        for choice in CHOICES
        if not (strict and choice.practice) and any(choice.concerns.search(t) for t in texts)
    ]
