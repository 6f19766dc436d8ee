"""Local memory: copies of what nobody wrote are no fault in practice."""

from xttir.diagnostics import Kind, Policy
from xttir.frontends.launch_description import from_dict
from xttir.frontends.ptx import parse_ptx
from xttir.interp.ptx.running import run

KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
    .local .align 4 .b8 depot[8];
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u64 %rd2, depot;
    mov.u32 %r1, 7;
    st.local.u32 [%rd2], %r1;
    ld.local.u32 %r2, [%rd2+4];
    st.local.u32 [%rd2+4], %r2;
    ld.local.u32 %r3, [%rd2];
    st.global.u32 [%rd1], %r3;
    ret;
}
"""
LAUNCH = {
    "entry": "k",
    "arch": "sm_80",
    "grid": [1, 1, 1],
    "block": [1, 1, 1],
    "dynamic_smem": 0,
    "tensors": {"o": {"dtype": "u32", "shape": [1], "role": "out"}},
    "params": [{"pointer": "o"}],
}


def test_a_copy_of_unwritten_local_memory_is_strict():
    result = run(parse_ptx(KERNEL, "k.ptx"), from_dict(LAUNCH))
    assert [(f.kind, f.policy) for f in result.faults] == [(Kind.UNINITIALIZED, Policy.STRICT)]
    assert result.tensors["o"].tolist() == [7]
