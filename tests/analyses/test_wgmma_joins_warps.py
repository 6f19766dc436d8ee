"""Whether wgmma waits for all warps of its warpgroup, so that no barrier need stand before it.

`wgmma_joins_warps.json` is what an H200 did: with a proxy fence in every writing thread no launch
was wrong, however late one warp came; without the fence all were. The verdicts agree.
"""

import json
from pathlib import Path

import pytest

from xttir.analyses.build import Kernel
from xttir.analyses.explore import explore
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Kind, Verdict

RECORDED = json.loads(
    (Path(__file__).parents[1] / "data/ptx_measured/wgmma_joins_warps.json").read_text()
)["wrong"]


@pytest.mark.parametrize(
    ("what", "fence", "barrier"),
    [
        ("fence, bar.sync", True, True),
        ("fence, no bar.sync", True, False),
        ("neither", False, False),
    ],
)
def test_verdicts_agree(what: str, fence: bool, barrier: bool):
    k = Kernel(threads=128)
    x = k.shared("x", 128 * 16)
    group = k.everybody()
    for warp in range(4):
        lanes = range(32 * warp, 32 * warp + 32)
        agent = k.agent(lanes)
        agent.write([x.part(16 * lane, 16) for lane in lanes])
        if fence:
            agent.proxy_fence()
    if barrier:
        group.sync()
    group.wgmma(x)
    group.commit_group("wgmma")
    group.wait_group(0, "wgmma")
    wrong = sum(RECORDED[what].values()) > 0
    trace = k.trace()
    warps = [list(range(32 * w, 32 * w + 32)) for w in range(4)]
    assert (explore(trace, warps).kinds == {Kind.PROXY}) is wrong
    assert (verify_trace(trace).verdict is Verdict.FAULT) is wrong


@pytest.mark.parametrize("complete", [True, False])
def test_one_thread_gives_a_stage_back_for_the_warpgroup(complete: bool):
    """A complete wgmma was issued by all four warps: they have left their waits."""
    k = Kernel(threads=160)
    source, x = k.tensor("source", 2048), k.shared("x", 2048)
    full, empty = k.barrier("full"), k.barrier("empty")
    group, one, producer = k.agent(range(128)), k.agent(0), k.agent(128)
    producer.init(full, 1)
    producer.init(empty, 1)
    k.everybody().sync()
    for phase in range(3):
        if phase:
            producer.wait(empty, phase - 1)
        producer.arrive(full, expect=2048)
        producer.copy(x, source, full)
        group.wait(full, phase)
        group.wgmma(x)
        group.commit_group("wgmma")
        group.wait_group(0 if complete else 1, "wgmma")
        one.arrive(empty)
    assert (verify_trace(k.trace()).verdict is Verdict.VERIFIED) is complete
