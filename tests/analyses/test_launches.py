"""Blocks that draw tickets are verified in two orders."""

import json
from pathlib import Path

import numpy as np
import pytest

from xttir.analyses.events import Access, Mode
from xttir.analyses.launches import verify_launch
from xttir.diagnostics import Kind, Verdict
from xttir.frontends.launch_description import load
from xttir.frontends.launch_description.match import match
from xttir.frontends.ptx import parse_ptx
from xttir.interp.ptx.trace import trace

LAST = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry last(.param .u64 counter, .param .u64 parts, .param .u64 out)
{
    .reg .pred %p<6>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<10>;
    .shared .align 4 .b8 flag[4];
    .shared .align 4 .b8 data[256];
    ld.param.u64 %rd1, [counter];
    ld.param.u64 %rd2, [parts];
    ld.param.u64 %rd3, [out];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    cvta.to.global.u64 %rd3, %rd3;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %nctaid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra meet;
    mul.wide.u32 %rd4, %r2, 4;
    add.s64 %rd5, %rd2, %rd4;
    st.global.u32 [%rd5], %r2;
    atom.acq_rel.gpu.global.add.u32 %r4, [%rd1], 1;
    sub.u32 %r5, %r3, 1;
    setp.eq.u32 %p2, %r4, %r5;
    selp.u32 %r6, 1, 0, %p2;
    st.shared.u32 [flag], %r6;
meet:
    bar.sync 0;
    ld.shared.u32 %r7, [flag];
    setp.eq.u32 %p3, %r7, 0;
    @%p3 bra done;
    mul.wide.u32 %rd6, %r1, 4;
    mov.u64 %rd7, data;
    add.s64 %rd8, %rd7, %rd6;
    st.shared.u32 [%rd8], %r1;
    SYNC
    xor.b32 %r8, %r1, 32;
    mul.wide.u32 %rd6, %r8, 4;
    add.s64 %rd8, %rd7, %rd6;
    ld.shared.u32 %r9, [%rd8];
    @%p1 bra done;
    ld.global.u32 %r10, [%rd2];
    ld.global.u32 %r11, [%rd2+4];
    add.u32 %r12, %r10, %r11;
    add.u32 %r12, %r12, %r9;
    st.global.u32 [%rd3], %r12;
done:
    ret;
}
"""
ALWAYS = "bar.sync 0;"
NOT_THE_FIRST = """setp.eq.u32 %p4, %r2, 0;
    @%p4 bra skip;
    bar.sync 0;
skip:"""
"""Block 0 does without: it shows only when that one comes last."""


def launched(folder: Path, sync: str):
    module = parse_ptx(LAST.replace("SYNC", sync), "last.ptx")
    description = {
        "entry": "last",
        "arch": "sm_80",
        "grid": [2, 1, 1],
        "block": [64, 1, 1],
        "tensors": {
            "counter": {"dtype": "i32", "shape": [1], "role": "inout", "init": 0},
            "parts": {"dtype": "i32", "shape": [2], "role": "inout"},
            "out": {"dtype": "i32", "shape": [1], "role": "out"},
        },
        "params": [{"pointer": "counter"}, {"pointer": "parts"}, {"pointer": "out"}],
    }
    file = folder / "last.json"
    file.write_text(json.dumps(description))
    return module, match(load(str(file)), module)


@pytest.mark.parametrize(
    ("sync", "right"), [(ALWAYS, True), (NOT_THE_FIRST, False)], ids=["always", "not the first"]
)
def test_whoever_comes_last(tmp_path: Path, sync: str, right: bool):
    _, report = verify_launch(*launched(tmp_path, sync))
    assert report.tickets
    assert report.stats["orders"] == 2
    if right:
        assert (report.verdict, report.faults) == (Verdict.VERIFIED, [])
        assert any("two orders" in text for text in report.assumptions)
    else:
        assert report.verdict is Verdict.FAULT
        assert {f.kind for f in report.faults} == {Kind.RACE}


@pytest.mark.parametrize("backward", [False, True])
def test_the_last_blocks_first(tmp_path: Path, backward: bool):
    found = trace(*launched(tmp_path, ALWAYS), backward=backward)
    drawn = [
        lane
        for e in found.events
        if isinstance(e, Access) and e.footprints[0].mode is Mode.RMW
        for lane in np.asarray(e.lanes).tolist()
    ]
    assert drawn == ([64, 0] if backward else [0, 64])
