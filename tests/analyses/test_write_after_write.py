"""A bulk copy over memory that was written with plain stores, with and without a proxy fence.

`write_after_write.json` is what an H200 did; the analysis must refuse what lost data there, and may
accept, as shipped kernels need, what never did.
"""

import json
from pathlib import Path

import pytest

from xttir.analyses.build import Kernel
from xttir.analyses.verify import verify_trace
from xttir.diagnostics import Kind, Policy

RECORDED = json.loads(
    (Path(__file__).parents[1] / "data/ptx_measured/write_after_write.json").read_text()
)["wrong"]


def findings(fence: bool, read: bool) -> set[tuple[Kind, Policy]]:
    k = Kernel(threads=64)
    full, x, g = k.barrier("full"), k.shared("x", 64), k.tensor("g", 64)
    k.agent(0).init(full, 1)
    writer, everybody = k.agent(40), k.everybody()
    writer.write(x)
    if fence:
        writer.proxy_fence()
    everybody.sync()
    if read:
        everybody.read(x)
        everybody.sync()
    k.agent(0).arrive(full, expect=64)
    k.agent(0).copy(x, g, full)
    everybody.wait(full, 0)
    everybody.read(x)
    report = verify_trace(k.trace())
    return {(f.kind, f.policy) for f in report.faults if f.kind is Kind.PROXY}


@pytest.mark.parametrize(
    ("what", "fence", "read"),
    [
        ("conflicting stores", False, False),
        ("conflicting stores, fence", True, False),
        ("conflicting stores, read", False, True),
        ("conflicting stores, fence and read", True, True),
    ],
)
def test_what_loses_data_is_a_fault(what: str, fence: bool, read: bool):
    lost = sum(RECORDED[what].values()) > 0
    found = findings(fence, read)
    assert ((Kind.PROXY, Policy.ANY) in found) == lost
    # By the letter a fence also stands between the generic read and the asynchronous write.
    assert ((Kind.PROXY, Policy.STRICT) in found) == read
