"""Threads that wait for a slot and do not fill it: one that comes two phases late waits forever.

Compilers that split a loop into roles let all warps of the producer wait where one thread copies;
nothing keeps the phases from passing the others. `late_waiters.json`: an H200 hangs when they are
held up.
"""

import json
from pathlib import Path

import pytest

from xttir.analyses.build import Kernel
from xttir.analyses.explore import explore
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Kind, Policy, Verdict

ENDS = json.loads((Path(__file__).parents[1] / "data/ptx_measured/late_waiters.json").read_text())


@pytest.mark.parametrize(("bystander", "arrives"), [(False, False), (True, False), (True, True)])
def test_a_bystander_is_overtaken(bystander: bool, arrives: bool):
    """One that must arrive at every phase cannot be."""
    k = Kernel(threads=3)
    source, x = k.tensor("source", 16), k.shared("x", 16)
    full, empty = k.barrier("full"), k.barrier("empty")
    copier, other, consumer = k.agent(0), k.agent(1), k.agent(2)
    copier.init(full, 1)
    copier.init(empty, 2 if arrives else 1)
    k.everybody().sync()
    for step in range(4):
        if step:
            copier.wait(empty, step - 1)
            if bystander:
                other.wait(empty, step - 1)
        copier.arrive(full, expect=16)
        copier.copy(x, source, full)
        consumer.wait(full, step)
        consumer.read(x)
        consumer.arrive(empty)
        if arrives:
            other.arrive(empty)
    trace = k.trace()
    report, found = verify_trace(trace), explore(trace)
    ends = ENDS["ends"]["late" if bystander and not arrives else "as it is"]
    assert (Kind.DEADLOCK not in found.kinds) is ends
    assert (report.verdict is Verdict.VERIFIED) is ends
    kinds = {f.kind for f in report.faults if f.policy is not Policy.STRICT}
    assert kinds == (set() if ends else {Kind.PHASE})
