"""Instructions that producers emit: the histogram of the notes, and forms that ptxas was asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.frontends.ptx.conftest import HEADER
from xttir.dialects.ptx import PTX
from xttir.dialects.ptx.instruction import FAMILIES, UnknownMnemonic, take_apart
from xttir.frontends.ptx import parse_ptx, print_ptx

REGISTERS = """.reg .pred p<8>; .reg .b16 h<8>; .reg .b32 r<300>; .reg .b64 d<20>; .reg .f32 f<300>;
.reg .b128 q<4>; .shared .align 1024 .b8 sm[4096];"""


def test_mnemonics_of_the_histogram(shared_dir: Path) -> None:
    notes = shared_dir / "notes" / "ptx_in_the_wild.md"
    if not notes.exists():
        pytest.skip(f"{notes} is absent")
    found = re.findall(r"^\| \d+ \| `([a-z][^`]*)` \|", notes.read_text(), re.MULTILINE)
    assert len(found) > 400
    refused: list[str] = []
    for text in found:
        try:
            mnemonic = take_apart(text)
        except UnknownMnemonic as error:
            refused.append(f"{text}: {error}")
        else:
            assert mnemonic.op in PTX.operations
    assert not refused


def test_forms_that_ptxas_takes(shared_dir: Path) -> None:
    """Every form named in the semantics digest: parsed, verified, printed, parsed again."""
    path = shared_dir / "semantics" / "check_forms.py"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    forms = re.findall(r'\bok\("([^"]+)"', path.read_text())
    assert len(forms) > 120
    for form in forms:
        text = f"{HEADER}.visible .entry k(.param .u64 prm) {{\n{REGISTERS}\n{form}\nret; }}\n"
        module = parse_ptx(text)
        module.verify()
        printed = print_ptx(module)
        assert print_ptx(parse_ptx(printed)) == printed, form


def test_every_family_has_one_class() -> None:
    classes = set(FAMILIES.values())
    assert classes <= set(PTX.operations)
    for cls in classes:
        assert cls.name == "ptx." + cls.family.replace("::", "_")
        assert FAMILIES[cls.family] is cls


@pytest.mark.parametrize(
    ("text", "family", "modifiers"),
    [
        ("ld.global.nc.v4.f32", "ld", "global nc v4 f32"),
        ("bar.red.popc.u32", "barrier.red", "popc u32 aligned"),
        ("membar.proxy.alias", "fence.proxy", "alias"),
        ("fence.proxy.async.shared::cta", "fence.proxy", "async shared::cta"),
        ("fence.acq_rel.gpu", "fence", "acq_rel gpu"),
        ("cp.async.bulk.wait_group.read", "cp.async.bulk.wait_group", "read"),
        ("cp.async.wait_all", "cp.async.wait_all", ""),
        ("tcgen05.mma.ws.sp.cta_group::1.kind::f16", "tcgen05.mma", "ws sp cta_group::1 kind::f16"),
        ("tcgen05.fence::after_thread_sync", "tcgen05.fence::after_thread_sync", ""),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma", None),
        ("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16", "wgmma.mma_async", None),
        ("mbarrier.arrive.expect_tx.shared::cta.b64", "mbarrier.arrive", None),
        ("griddepcontrol.wait", "griddepcontrol.wait", ""),
    ],
)
def test_family(text: str, family: str, modifiers: str | None) -> None:
    found = take_apart(text)
    assert found.op.family == family
    if modifiers is not None:
        assert found.modifiers == tuple(modifiers.split())


@pytest.mark.parametrize(
    "form",
    [
        "cp.async.cg.shared.global [r0], [d0], 16;",
        "cp.async.ca.shared.global.L2::128B [r0], [d0], 16, r1;",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0,f1,f2,f3}, {r0,r1,r2,r3}, {r4,r5}, "
        "{f4,f5,f6,f7};",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0},[r1];",
        "tcgen05.mma.cta_group::1.kind::f16 [ r1 + 0 ], d1, d2, r2, {r1,r1,r1,r1}, p0;",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [r0], r1, [r2];",
        "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [d0], d1;",
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {r0, r1, r2, _}, q0;",
        "atom.global.cas.b128 q0, [d0], q1, q2;",
        "prefetch.tensormap [d0];",
        "isspacep.shared::cluster p0, d0;",
        "tex.2d.v4.f32.f32 {f0,f1,f2,f3}, [d0, {f4,f5}];",
        "vadd.u32.u32.u32 r0, r1.b0, r2.h1;",
        "lop3.or.b32 r0|p1, r1, r2, r3, 0x3f, p0;",
        "createpolicy.fractional.L2::evict_last.b64 d0, 1.0;",
        "barrier.cta.red.and.pred p0, 1, 32, !p1;",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r0], 1;",
        "mbarrier.arrive.shared::cta.b64 d0, [r0];",
        "fence.proxy.tensormap::generic.acquire.gpu [d0], 128;",
        "red.global.add.noftz.v4.bf16x2 [d0], {r0, r1, r2, r3};",
        "cvt.rn.satfinite.e4m3x2.f32 h0, f0, f1;",
        "fabric.try_put.async.shared::cta.mbarrier::complete_tx::16B.mbarrier::report::fabric."
        "relaxed.sys.b128 [r0, d1], [r2], r3, [r4];",
    ],
)
def test_form(form: str) -> None:
    text = f"{HEADER}.visible .entry k(.param .u64 prm) {{\n{REGISTERS}\n{form}\nret; }}\n"
    module = parse_ptx(text)
    module.verify()
    printed = print_ptx(module)
    squeezed = re.sub(r"\s|\+ 0", "", form)
    assert squeezed in re.sub(r"\s", "", printed)
    assert print_ptx(parse_ptx(printed)) == printed
