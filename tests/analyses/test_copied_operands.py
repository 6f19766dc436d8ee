"""Operands that cp.async brings: tensor cores see them without a proxy fence, in practice.

`cp_async_to_tensor_cores.json` is what an H200 did without the fence: no product was wrong. CUTLASS
has no fence there for wgmma and tcgen05. The letter asks for one, as it does after st.shared, where
the lack of it shows; a bulk copy is no tensor-core operation.
"""

import json
from pathlib import Path

import pytest

from xttir.analyses.build import Agent, Kernel, Region
from xttir.analyses.explore import explore
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Kind, Policy, Verdict

RECORDED = json.loads(
    (Path(__file__).parents[1] / "data/ptx_measured/cp_async_to_tensor_cores.json").read_text()
)["wrong"]


def _fill(agent: Agent, how: str, x: Region, source: Region) -> None:
    if how == "st":
        agent.write(x)
        return
    agent.cp_async(x, source)
    agent.commit_group()
    agent.wait_group(0)


def _read(k: Kernel, group: Agent, how: str, x: Region) -> None:
    if how == "wgmma":
        group.wgmma(x)
        group.commit_group("wgmma")
        group.wait_group(0, "wgmma")
        return
    one, full = k.agent(0), k.barrier("full")
    if how == "tcgen05":
        one.alloc(0, 32)
        one.mma(k.cells("d", 8), x)
        one.init(full, 1)
        one.arrive(full, by="commit")
        one.wait(full, 0)
        one.dealloc(0, 32)
        return
    one.copy(k.tensor("out", x.size), x)
    one.commit_group("bulk")
    one.wait_group(0, "bulk")


@pytest.mark.parametrize("fence", [False, True])
@pytest.mark.parametrize("by", ["cp.async", "st"])
@pytest.mark.parametrize("reader", ["wgmma", "tcgen05", "bulk"])
def test_what_tensor_cores_read(reader: str, by: str, fence: bool):
    k = Kernel(threads=128)
    x, source = k.shared("x", 128 * 16), k.tensor("source", 128 * 16)
    lanes = [k.agent(t) for t in range(128)]
    for t, lane in enumerate(lanes):
        _fill(lane, by, x.part(16 * t, 16), source.part(16 * t, 16))
        if fence:
            lane.proxy_fence()
    group = k.everybody()
    group.sync()
    _read(k, group, reader, x)
    trace = k.trace()
    allowed = fence or (by == "cp.async" and reader != "bulk")
    practice, letter = verify_trace(trace), verify_trace(trace, strict=True)
    assert (practice.verdict is Verdict.VERIFIED) is allowed
    assert (Kind.PROXY in {f.kind for f in letter.faults}) is not fence
    assert all(f.policy is Policy.STRICT for f in practice.faults) is allowed
    warps = [list(range(32 * w, 32 * w + 32)) for w in range(4)]
    assert (Kind.PROXY in explore(trace, warps).kinds) is not allowed


def test_no_product_was_wrong():
    assert not any(wrong for counts in RECORDED.values() for wrong in counts.values())


@pytest.mark.parametrize("ordered", [False, True])
def test_the_copy_must_be_over(ordered: bool):
    """The relaxation is about the proxy alone."""
    k = Kernel(threads=128)
    x, source = k.shared("x", 16), k.tensor("source", 16)
    k.agent(0).cp_async(x, source)
    k.agent(0).commit_group()
    if ordered:
        k.agent(0).wait_group(0)
    group = k.everybody()
    group.sync()
    _read(k, group, "wgmma", x)
    assert (verify_trace(k.trace()).verdict is Verdict.VERIFIED) is ordered
