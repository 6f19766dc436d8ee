"""PTX -> dialect -> PTX assembles to the same machine code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frontends.ptx.conftest import SHARED, kernel, shared_files
from tests.frontends.ptx.ptxas import assemble, assemblers
from xttir.diagnostics import Unsupported
from xttir.dialects.ptx.arithmetic import AddOp
from xttir.frontends.ptx import parse_ptx, print_ptx

needs_ptxas = pytest.mark.skipif(not assemblers(), reason="no ptxas")

FAST = (
    "cases/ptx/ws_sm90/kernel.ptx",
    "cases/ptx/pipe_sm100/kernel.ptx",
    "corpus/ptx/triton/sm90_matmul_tma_persistent_ws.ptx",
    "cases/reports/08-flag-before-partial/fixed.ptx",
)


def check_same_code(text: str, folder: Path) -> None:
    printed = print_ptx(parse_ptx(text))
    assert print_ptx(parse_ptx(printed)) == printed
    original = assemble(text, folder, "original")
    assert any(name.startswith(".text") for name in original)
    assert assemble(printed, folder, "printed") == original


@needs_ptxas
@pytest.mark.parametrize("name", FAST)
def test_same_machine_code(name: str, tmp_path: Path) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is absent")
    check_same_code(path.read_text(), tmp_path)


@needs_ptxas
@pytest.mark.slow
@pytest.mark.parametrize("path", shared_files(), ids=lambda path: "/".join(path.parts[-3:]))
def test_same_machine_code_everywhere(path: Path, tmp_path: Path) -> None:
    check_same_code(path.read_text(), tmp_path)


BODIES = {
    "scopes": """
        ld.param.u64 d0, [out]; mov.u32 r0, %tid.x;
        { .reg .b32 r0; mov.u32 r0, 7; { .reg .b32 r0, t; mov.u32 r0, 9;
          add.s32 t, r0, 1; st.global.u32 [d0+4], t; }
          again: add.s32 r0, r0, -1; setp.gt.s32 p0, r0, 0; @p0 bra again;
          st.global.u32 [d0], r0; }
        { again: add.s32 r0, r0, -1; setp.gt.s32 p0, r0, 0; @p0 bra again; }
        st.global.u32 [d0+-4], r0; ret;""",
    "guarded": """
        ld.param.u64 d0, [out]; mov.u32 r0, %tid.x; setp.lt.u32 p0, r0, 4; mov.u32 r1, 1;
        @p0 add.s32 r1, r1, r0; @!p0 ld.global.u32 r2, [d0];
        @p0 mov.u32 r2, 5; st.global.v2.u32 [d0], {r1, r2};
        @p0 ret; st.global.u32 [d0], r0; exit;""",
    "carry": """
        ld.param.u64 d0, [out]; ld.global.v4.u32 {r0, r1, r2, r3}, [d0];
        add.cc.u32 r4, r0, r2; addc.u32 r5, r1, r3; st.global.v2.u32 [d0], {r4, r5}; ret;""",
    "table": """
        T: .branchtargets A, B, C;
        ld.param.u64 d0, [out]; mov.u32 r0, %tid.x; and.b32 r1, r0, 1;
        brx.idx r1, T;
        A: st.global.u32 [d0], 1; bra.uni C;
        B: st.global.u32 [d0], 2; C: st.global.u32 [d0], 3; ret;""",
    "constants": """
        ld.param.u64 d0, [out]; mov.f32 f0, 0f3F800000; mov.f32 f1, 1.5; mov.u32 r0, 0x7fU;
        mov.u32 r1, 017; mov.u32 r2, 0b101; mov.s32 r3, -(3 + 4) * 2; mov.u32 r4, WARP_SZ;
        mov.f64 g0, 0d3FF0000000000000; add.f32 f0, f0, f1; mov.u64 d1, sm+16;
        st.global.v4.u32 [d0+(4*4)], {r0, r1, r2, r3}; st.global.f32 [d0], f0;
        st.global.f64 [d0+8], g0; st.global.u64 [d0+40], d1; st.global.u32 [d0+64], r4; ret;""",
    "pairs": """
        ld.param.u64 d0, [out]; mov.u32 r0, %laneid; setp.lt.and.s32 p0|p1, r0, 4, p2;
        elect.sync _|p3, 0xffffffff; elect.sync r1|p4, 0xffffffff;
        shfl.sync.idx.b32 r2|p5, r0, 0, 31, -1; selp.b32 r3, 1, 2, !p1; @p5 add.s32 r3, r3, r2;
        @p3 st.global.u32 [d0], r3; @p4 st.global.u32 [d0+4], r1; ret;""",
    "wide": """
        ld.param.u64 d0, [out]; ld.global.v2.u64 {d1, d2}, [d0]; mov.b128 q0, {d1, d2};
        mov.b128 {d3, d4}, q0; mov.b64 {r0, r1}, d3; mov.b64 {r2, _}, d4;
        st.global.v2.u64 [d0], {d3, d4}; st.global.u32 [d0+16], r2;
        .reg .v4 .f32 %v; ld.global.v4.f32 %v, [d0]; add.f32 f0, %v.x, %v.w;
        st.global.f32 [d0], f0; ret;""",
}


@needs_ptxas
@pytest.mark.parametrize("name", BODIES)
def test_same_machine_code_of_forms(name: str, tmp_path: Path) -> None:
    check_same_code(kernel(BODIES[name]), tmp_path)


MODULES = {
    "calls": """
        .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
        .global .align 1 .b8 $str[4] = {104, 105, 10, 0};
        .func (.reg .b32 %out) thrice(.reg .b32 %in) { mul.lo.s32 %out, %in, 3; ret; }
        .visible .entry k(.param .u64 .ptr .global .align 16 x, .param .align 8 .b8 s[24])
        .maxntid 128, 1, 1 .minnctapersm 2
        {
          .local .align 8 .b8 depot[8]; .reg .b32 %r<9>; .reg .b64 %rd<9>;
          mov.u64 %rd1, $str; cvta.global.u64 %rd2, %rd1; mov.u64 %rd3, depot;
          cvta.local.u64 %rd4, %rd3; ld.param.u32 %r1, [s+4]; st.local.u32 [depot], %r1;
          { .param .b64 param0; st.param.b64 [param0], %rd2;
            .param .b64 param1; st.param.b64 [param1], %rd4; .param .b32 retval0;
            call.uni (retval0), vprintf, (param0, param1);
            ld.param.b32 %r2, [retval0]; }
          call (%r3), thrice, (%r2);
          ld.param.u64 %rd5, [x]; st.global.u32 [%rd5], %r3; ret;
        }""",
    "variables": """
        .visible .const .align 4 .f32 weights[2][3] = {{1.0, 2.0, 0f40400000}, {-1.0, 0.0, 5.5}};
        .global .u32 counter = 3; .weak .global .align 8 .u64 there = generic(counter);
        .global .u64 also[2] = {counter+4, 0}; .global .v2 .f32 pair;
        .extern .shared .align 1024 .b8 dynamic[];
        .visible .entry k() .reqntid 64 .reqnctapercluster 2 .explicitcluster
        { .reg .b32 %r<4>; .reg .f32 %f<3>; .reg .b64 %rd<5>; .shared .b32 one, two[4];
          ld.const.f32 %f1, [weights+12]; st.shared.f32 [two+4], %f1; ld.shared.u32 %r1, [one];
          atom.global.add.u32 %r2, [counter], %r1; ld.global.u64 %rd1, [there];
          st.u32 [%rd1], %r2; st.shared.u32 [dynamic+4], %r1; .pragma "nounroll"; ret; }""",
}


@needs_ptxas
@pytest.mark.parametrize("name", MODULES)
def test_same_machine_code_of_modules(name: str, tmp_path: Path) -> None:
    text = ".version 8.7\n.target sm_100a\n.address_size 64\n" + MODULES[name]
    check_same_code(text, tmp_path)


def test_values_that_overlap_are_refused() -> None:
    """A use of what was overwritten since cannot be printed with the names that there are."""
    module = parse_ptx(
        kernel("mov.u32 r0, 1;\nadd.s32 r0, r0, 1;\nadd.s32 r1, r0, 2;\nadd.s32 r2, r0, r1;\nret;")
    )
    first, second, third = (op for op in module.walk() if isinstance(op, AddOp))
    third.operands[0] = first.operands[0]
    with pytest.raises(Unsupported, match="register r0"):
        print_ptx(module)
    third.operands[0] = second.operands[0]
    assert "add.s32 r2, r0, r1" in print_ptx(module)
