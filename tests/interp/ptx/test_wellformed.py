"""Operands that an instruction does not take are bad input, wherever they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import shared_root
from tests.frontends.ptx.conftest import kernel
from tests.frontends.ptx.ptxas import assemble, assemblers
from xttir.diagnostics import InputError
from xttir.frontends.ptx import parse_ptx
from xttir.interp.ptx.reader import entries, read_kernel

WRONG = {
    "one source": "add.s32 r0, r1;",
    "three sources": "add.s32 r0, r1, r2, r3;",
    "source of another size": "add.s32 r0, r1, d0;",
    "result of another size": "add.s32 d0, r0, r1;",
    "predicate": "add.s32 r0, r1, p0;",
    "no predicate": "setp.eq.s32 r0, r1, r2;",
    "setp with a third source": "setp.eq.s32 p0, r1, r2, p1;",
    "setp without the one it combines": "setp.eq.and.s32 p0, r1, r2;",
    "size of a comparison": "setp.eq.s32 p0, d1, d2;",
    "select": "selp.b32 r0, r1, r2, r3;",
    "multiplication and addition": "mad.lo.s32 r0, r1, r2, d0;",
    "move of nothing": "mov.u32 r0;",
    "move of two": "mov.u32 r0, r1, r2;",
    "move to another size": "mov.u32 d0, r1;",
    "parts of a move": "mov.b64 {r0, r1, r2}, d0;",
    "load from nowhere": "ld.global.u32 r0;",
    "load into half": "ld.global.u64 r0, [d0];",
    "store of half": "st.global.u64 [d0], r0;",
    "store of nothing": "st.global.u32 [d0];",
    "barrier without a number": "bar.sync;",
    "barrier of three": "bar.sync 0, 32, 32;",
    "mbarrier without a count": "mbarrier.init.shared::cta.b64 [sm];",
    "mbarrier without an address": "mbarrier.init.shared::cta.b64 r0, 1;",
    "wait without a parity": "mbarrier.try_wait.parity.shared::cta.b64 p0, [sm];",
    "copy without a size": "cp.async.ca.shared.global [sm], [d0];",
    "commit of something": "cp.async.commit_group 1;",
    "wait for nothing": "cp.async.wait_group;",
    "shape": "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {f0, f1, f2, f3, f4, f5}, "
    "d0, d1, 1, 1, 1, 0, 0;",
    "accumulator": "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2}, "
    "d0, d1, 1, 1, 1, 0, 0;",
}

RIGHT = {
    "sizes": """add.s32 r0, r1, -1; add.u64 d0, d1, 4; add.f32 f0, f1, 0f3F800000; not.pred p0, p1;
        mul.wide.s32 d0, r0, r1; mad.wide.u32 d0, r0, r1, d1; shl.b64 d0, d1, r0;
        cvt.u64.u32 d0, r0; cvt.rn.f16x2.f32 r0, f0, f1; and.b32 r0, r1, r2;
        add.f32 f0, r0, f1; xor.b32 r0, f0, f1; fma.rn.f32x2 d0, d1, d2, d3;
        add.cc.u32 r0, r1, r2; addc.u32 r0, r1, r2; setp.lt.and.s32 p0|p1, r0, 4, p2;
        selp.f32 f0, f1, f2, p0; lop3.b32 r0, r1, r2, r3, 0x80;
        popc.b64 r0, d0; bfe.u64 d0, d1, r0, r1; prmt.b32 r0, r1, r2, r3;""",
    "moves": """mov.u32 r0, %tid.x; mov.b64 {r0, r1}, d0; mov.b32 r0, {h0, h1}; mov.u64 d0, sm;
        mov.f32 f0, r0; mov.b64 {r0, _}, d1; mov.pred p0, 1; cvta.to.global.u64 d0, d1;""",
    "memory": """ld.global.u32 d0, [d1]; ld.shared.u8 r0, [sm]; ld.global.v2.f32 {f0, f1}, [d0+8];
        st.global.u16 [d0], r0; st.shared.b8 [sm], h0; atom.global.add.u32 r0, [d0], 1;
        atom.global.cas.b32 r0, [d0], r1, r2; red.global.add.f32 [d0], f0;""",
    "barriers": """bar.sync 0; bar.sync 1, 64; barrier.cta.arrive 2, 64; bar.red.popc.u32 r0, 0, p0;
        mbarrier.init.shared::cta.b64 [sm], 1; mbarrier.arrive.shared::cta.b64 _, [sm];
        mbarrier.arrive.expect_tx.shared::cta.b64 d0, [sm], 16; bar.warp.sync -1;
        mbarrier.try_wait.parity.shared::cta.b64 p0, [sm], 0, 10000;""",
    "warps": """shfl.sync.idx.b32 r0|p0, r1, 0, 31, -1; vote.sync.ballot.b32 r0, p0, -1;
        elect.sync _|p0, -1; redux.sync.add.s32 r0, r1, -1; match.any.sync.b32 r0, r1, -1;
        activemask.b32 r0;""",
}


def _read(body: str) -> str:
    text = kernel(body + "\nret;")
    module = parse_ptx(text, "k.ptx")
    read_kernel(module, "k")
    return text


@pytest.mark.parametrize("name", WRONG)
def test_wrong_operands_are_located(name: str) -> None:
    with pytest.raises(InputError) as caught:
        _read(WRONG[name])
    assert caught.value.location is not None
    assert caught.value.location.line == 7


@pytest.mark.parametrize("name", RIGHT)
def test_right_operands(name: str, tmp_path: Path) -> None:
    text = _read(RIGHT[name])
    if assemblers():
        assemble(text, tmp_path, "right")


@pytest.mark.skipif(not assemblers(), reason="no ptxas")
@pytest.mark.parametrize("name", WRONG)
def test_ptxas_refuses_them_too(name: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        assemble(kernel(WRONG[name] + "\nret;"), tmp_path, "wrong")


def test_what_compilers_write_is_right() -> None:
    root = shared_root()
    files = sorted((root / "corpus/ptx").glob("*/sm*_attn*.ptx")) if root else []
    if not files:
        pytest.skip("no corpus (set XTTIR_SHARED)")
    for file in files:
        module = parse_ptx(file.read_text(), str(file))
        for name in entries(module):
            assert read_kernel(module, name).body.blocks
