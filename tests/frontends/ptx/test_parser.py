"""What the parser makes of the forms that PTX has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.frontends.ptx.conftest import function, kernel, shared_files
from xttir.diagnostics import Location
from xttir.dialects.locations import locations_of
from xttir.dialects.ptx import control
from xttir.dialects.ptx.function import DirectiveOp, FuncOp, UndefOp, VariableOp
from xttir.dialects.ptx.instruction import Instruction, target_values
from xttir.dialects.ptx.operands import ImmAttr, MemAttr, RegType, SinkAttr, SymbolAttr, VecAttr
from xttir.frontends.ptx import parse_ptx

ParseBody = Callable[[str], FuncOp]


def instructions(func: FuncOp) -> list[Instruction]:
    return [op for block in func.body.blocks for op in block.ops if isinstance(op, Instruction)]


def only(func: FuncOp, family: str) -> Instruction:
    (found,) = (op for op in instructions(func) if op.family == family)
    return found


def names(values: object) -> list[str]:
    return [v.type.register.data for v in values if isinstance(v.type, RegType)]  # type: ignore


def test_families_and_modifiers(parse_body: ParseBody) -> None:
    func = parse_body(
        "bar.sync 0; barrier.cta.sync 1, 64; barrier.sync.aligned 2; "
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[r0], [d0, {r1, r2}], [r3]; tcgen05.wait::ld.sync.aligned; ret;"
    )
    found = [(op.family, op.modifiers, op.mnemonic) for op in instructions(func)]
    assert found[:3] == [
        ("barrier.sync", ("aligned",), "bar.sync"),
        ("barrier.sync", (), "barrier.cta.sync"),
        ("barrier.sync", ("aligned",), "barrier.sync.aligned"),
    ]
    assert found[3][0] == "cp.async.bulk.tensor"
    assert found[3][1][:3] == ("2d", "shared::cluster", "global")
    assert found[4][:2] == ("tcgen05.wait::ld", ("sync", "aligned"))


def test_operand_structure(parse_body: ParseBody) -> None:
    func = parse_body("ld.global.v4.u32 {r0, _, r2, r3}, [d1+16]; mov.u64 d2, sm+8; ret;")
    load = only(func, "ld")
    assert names(load.defs) == ["r0", "r2", "r3"]
    assert names(load.uses) == ["d1"]
    (vector,) = load.dst
    assert isinstance(vector, VecAttr)
    assert isinstance(vector.parts.data[1], SinkAttr)
    (address,) = load.src
    assert isinstance(address, MemAttr)
    assert address.offset.data == 16
    (symbol,) = only(func, "mov").src
    assert isinstance(symbol, SymbolAttr)
    assert (symbol.symbol.data, symbol.offset.data) == ("sm", 8)


def test_copy_with_coordinates(parse_body: ParseBody) -> None:
    func = parse_body(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [d0, {r1, 5}], [ r2 + 0 ]; ret;"
    )
    copy = only(func, "cp.async.bulk.tensor")
    assert not copy.dst.data
    target, source = copy.src
    assert isinstance(target, MemAttr)
    assert isinstance(source, MemAttr)
    (coordinates,) = target.more
    assert isinstance(coordinates, VecAttr)
    assert names(copy.uses) == ["d0", "r1", "r2"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x10", 16),
        ("0x10U", 16),
        ("017", 15),
        ("0b11", 3),
        ("-5", -5),
        ("0f3F800000", 1.0),
        ("0dBFF0000000000000", -1.0),
        ("2.5", 2.5),
        ("1e3", 1000.0),
        ("WARP_SZ", 32),
        ("-(1 << 4) + 2", -14),
        ("(5 > 3) ? 7 : 9", 7),
        ("~0", -1),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("(.s64)0xFFFFFFFFFFFFFFFF", -1),
    ],
)
def test_constants(parse_body: ParseBody, text: str, value: float) -> None:
    (constant,) = only(parse_body(f"mov.b64 d0, {text}; ret;"), "mov").src
    assert isinstance(constant, ImmAttr)
    assert constant.value == value


def test_guard_takes_the_old_value(parse_body: ParseBody) -> None:
    func = parse_body("mov.u32 r0, 1; @!p1 mov.u32 r0, 2; ret;")
    first, second = (op for op in instructions(func) if op.family == "mov")
    assert second.guard is not None
    assert second.negated is not None
    assert names([second.guard]) == ["p1"]
    assert list(second.old) == [first.defs[0]]
    assert isinstance(second.guard.owner, UndefOp)


def test_accumulators_are_read_and_written(parse_body: ParseBody) -> None:
    func = parse_body(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f0, f1, f2, f3}, d1, d2, "
        "p0, 1, 1, 0, 0; ret;"
    )
    op = only(func, "wgmma.mma_async")
    assert names(op.old) == names(op.defs) == ["f0", "f1", "f2", "f3"]


def test_scopes_get_names_of_their_own(parse_body: ParseBody) -> None:
    func = parse_body(
        "{ .reg .pred p; .reg .u32 x<2>; mov.u32 x1, 1; setp.eq.u32 p, x1, 1; }"
        "{ .reg .pred p; mov.u32 r0, 1; setp.eq.u32 p, r0, 1; } ret;"
    )
    defined = [name for op in instructions(func) for name in names(op.defs)]
    assert defined == ["x1", "p", "r0", "p_1"]


def test_labels_belong_to_their_scope(parse_body: ParseBody) -> None:
    text = "{ L: mov.u32 r0, 1; @p0 bra L; } { bra L; mov.u32 r1, 1; L: @p1 bra L; }"
    func = parse_body(text + " bra M; M: ret;")
    blocks = list(func.body.blocks)
    branches = [op for op in instructions(func) if isinstance(op, control.BraOp)]
    targets = [blocks.index(op.successors[0]) for op in branches]
    assert targets[0] < targets[1] == targets[2] < targets[3]


def test_values_that_meet_are_block_arguments(parse_body: ParseBody) -> None:
    func = parse_body(
        "mov.u32 r0, 0; mov.u32 r1, 5; loop: add.s32 r0, r0, r1; setp.lt.s32 p0, r0, 9;"
        "@p0 bra loop; ret;"
    )
    _entry, loop, _ = func.body.blocks
    assert names(loop.args) == ["r0"]
    branch = loop.last_op
    assert isinstance(branch, control.BraOp)
    (add,) = (op for op in instructions(func) if op.family == "add")
    assert target_values(branch, 0) == (add.defs[0],)
    assert target_values(branch, 1) == ()


def test_indexed_branch(parse_body: ParseBody) -> None:
    func = parse_body("T: .branchtargets B, A, B; brx.idx r0, T; A: ret; B: exit;")
    branch = only(func, "brx.idx")
    blocks = list(func.body.blocks)
    assert [blocks.index(block) for block in branch.successors] == [2, 1, 2]


def test_functions_and_parameters() -> None:
    module = parse_ptx(
        kernel(
            "ret;",
            ".param .align 64 .b8 map[128], .param .u64 .ptr .global .align 16 x, .param .f32 a",
            ".maxntid 128, 1, 1 .minnctapersm 2 .explicitcluster",
        )
    )
    func = function(module)
    assert func.is_entry
    assert func.linking.data == "visible"
    assert [(p.bytes, p.alignment, p.pointer.data) for p in func.params] == [
        (128, 64, ""),
        (8, 8, "global align 16"),
        (4, 4, ""),
    ]
    assert func.directive("maxntid") == (128, 1, 1)
    assert func.directive("explicitcluster") == ()
    assert func.directive("maxnreg") is None
    assert module.attributes["ptx.target"].data[0].data == "sm_100a"  # type: ignore


def test_variables() -> None:
    text = ".version 8.7\n.target sm_90\n.address_size 64\n" + (
        ".global .align 1 .b8 a$b[4] = {95, 0x5f, 0, 1};\n.extern .shared .align 16 .b8 dyn[];\n"
        ".const .u32 t[2][3];\n"
        ".entry k() { .local .align 16 .b8 s[64]; { .shared .v4 .f32 v; } ret; }"
    )
    module = parse_ptx(text)
    found = {op.sym_name.data: op for op in module.walk() if isinstance(op, VariableOp)}
    assert list(found) == ["a$b", "dyn", "t", "s", "v"]
    assert found["dyn"].decl.is_open
    assert [found[name].decl.bytes for name in ("a$b", "t", "s", "v")] == [4, 24, 64, 16]
    assert found["v"].decl.alignment == 16
    assert found["a$b"].init is not None


LOC = """.version 8.7
.target sm_90
.address_size 64
.visible .entry k() {
.reg .b32 %r<9>;
.loc 1 10 3
mov.u32 %r1, 1;
.loc 2 7 5, function_name $L__info, inlined_at 1 12 9
mov.u32 %r2, 2;
.loc 2 3 1, function_name $L__info+4, inlined_at 2 7 5
mov.u32 %r3, 3;
// begin inline asm
.loc 1 99 1
mov.u32 %r4, 4;
// end inline asm
ret;
}
.file 1 "a.py"
.file 2 "lib.py", 12, 34
.section .debug_str
{
$L__info:
.b8 0
}
"""


def test_locations() -> None:
    func = function(parse_ptx(LOC, "k.ptx"))
    places = [locations_of(op) for op in instructions(func)]
    assert places[0] == (Location("k.ptx", 7, 1), Location("a.py", 10, 3))
    where = [(place.file, place.line) for place in places[1]]
    assert where == [("k.ptx", 9), ("lib.py", 7), ("a.py", 12)]
    where = [(place.file, place.line) for place in places[2]]
    assert where == [("k.ptx", 11), ("lib.py", 3), ("lib.py", 7), ("a.py", 12)]
    assert places[2][1].role == ""
    assert places[2][2].role == "called from"
    # Inside of inline assembly the line before it stays.
    assert [(place.file, place.line) for place in places[3]][1] == ("lib.py", 3)


def test_paths_beyond_ascii() -> None:
    text = LOC.replace('"a.py"', '"/j\\303\\274rgen/a \\"b\\".py"')
    first = locations_of(instructions(function(parse_ptx(text, "k.ptx")))[0])
    assert first[1] == Location('/jürgen/a "b".py', 10, 3)


def test_what_is_kept_as_text(parse_body: ParseBody) -> None:
    func = parse_body('.pragma "nounroll"; unused: mov.u32 r0, 1; ret;')
    kept = [op.text.data for op in func.walk() if isinstance(op, DirectiveOp)]
    assert kept == ['.pragma "nounroll";', "unused:"]


def test_carry_is_a_register(parse_body: ParseBody) -> None:
    func = parse_body("add.cc.u32 r0, r1, r2; addc.u32 r3, r4, r5; ret;")
    add, addc = (only(func, family) for family in ("add", "addc"))
    assert names(add.defs) == ["r0", "CC.CF"]
    assert addc.uses[-1] is add.defs[1]


def test_every_shared_file_is_read() -> None:
    files = shared_files()
    if not files:
        pytest.skip("no folder of shared cases (set XTTIR_SHARED)")
    for path in files[:: max(1, len(files) // 25)]:
        module = parse_ptx(path.read_text(), path.name)
        module.verify()
        assert any(isinstance(op, FuncOp) and op.is_entry for op in module.ops)
