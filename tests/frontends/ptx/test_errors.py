"""Text that is not PTX, or not all of it: an error with its place, never anything else."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontends.ptx.conftest import HEADER, kernel
from xttir.diagnostics import InputError, XttirError
from xttir.frontends.ptx import parse_ptx, print_ptx
from xttir.frontends.ptx.opt import decode

BODY = "ld.param.u64 d0, [out];\nmov.u32 r0, %tid.x;\n@p0 bra L;\nst.global.u32 [d0], r0;\nL: ret;"

CASES = {
    "unknown instruction": ("addd.s32 r0, r1, r2;", "unknown instruction `addd.s32`", "near: add"),
    "unknown barrier": ("mbarrier.try_wiat.b64 p0, [r0], d0;", "unknown instruction", "try_wait"),
    "unknown modifier": ("ld.global.b31 r0, [d0];", "no modifier `.b31`", "near: .b32"),
    "unknown word": (
        "mbarrier.try_wait.parity.shared::ctaa.b64 p0, [r0], r1;",
        "no modifier `.shared::ctaa`",
        "near: .shared::cta",
    ),
    "unknown register": ("mov.u32 r0, rr1;", "`rr1` is not declared", ""),
    "register out of range": ("mov.u32 r0, r300;", "`r300` is not declared", ""),
    "unknown special": ("mov.u32 r0, %tidx;", "`%tidx` is not declared", ""),
    "no label": ("bra nowhere;", "no label `nowhere`", ""),
    "label of an inner scope": ("{ in: ret; } bra in;", "no label `in`", ""),
    "two labels": ("a: ret; a: ret;", "declared twice", ""),
    "no semicolon": ("mov.u32 r0, r1\nret;", "expected `;`", ""),
    "guard": ("@r0 ret;", "a guard must be a predicate", ""),
    "written constant": ("add.s32 5, r0, r1;", "add needs a register to write to", ""),
    "written memory": ("add.s32 {r1, [d0]}, r0, r1;", "`[` inside of a vector", ""),
    "directive": (".shard .b32 x;", "expected a statement", "near: .shared"),
    "type": (".reg .b33 x;", "no type of a register", "near: .b32"),
    "alignment": (".shared .align 3 .b8 x[4];", "power of two", ""),
    "division": ("mov.u32 r0, 1/0;", "no value", ""),
    "two registers": ("ld.global.u32 r0, [d0+r1];", "a base and a constant", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_located(name: str) -> None:
    body, what, hint = CASES[name]
    with pytest.raises(InputError) as caught:
        parse_ptx(kernel(body), "k.ptx")
    error = caught.value
    assert what in error.what
    assert hint in error.hint
    assert error.location is not None
    assert error.location.file == "k.ptx"
    assert error.location.line in (7, 8)
    assert error.location.column > 0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "this is not PTX"),
        ("module { }", "this is not PTX"),
        ("tt.func @f() { tt.return }", "this is not PTX"),
        (".version 99.1\n.target sm_90", "version 99.1 is not known"),
        (".version abc", "expected a version"),
        (HEADER.replace("sm_100a", "gfx90a"), "not a target"),
        (HEADER + "/* no end", "a comment without an end"),
        (HEADER + '.pragma "no end', "a string without an end"),
        (HEADER + ".section .debug_str { .b8 0", "a section without an end"),
        (HEADER + ".visible .entry k() {", "unexpected end of file"),
        (HEADER + ".visible .entry k() { ret", "unexpected end of file"),
        (HEADER + ".visible .entrie k() { ret; }", "expected a directive"),
        (HEADER + ".visible .entry k() .maxntidd 4 { ret; }", "expected a directive"),
        (HEADER + "{" * 100_000, "expected a directive"),
        (HEADER + ".entry k() " + "{" * 100_000, "nested too deeply"),
        (HEADER + ".entry k() {.reg .b32 r; mov.u32 r, " + "(" * 100_000, "nested too deeply"),
        (HEADER + ".global .b8 x[1] = " + "{" * 100_000, "nested too deeply"),
        ("\x7fELF\x02\x01\x01\x00\x00", "not a text file"),
    ],
)
def test_files(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        parse_ptx(text, "k.ptx")
    assert caught.value.location is not None
    assert caught.value.location.line > 0


def test_bytes_that_are_not_text() -> None:
    with pytest.raises(InputError, match="UTF-8") as caught:
        decode(b".version 8.7\n// \xff\xfe", "k.ptx")
    assert str(caught.value.location) == "k.ptx:2:4"


@pytest.mark.parametrize("junk", ['"', "/*", "// x\n", "@@DWARF x\n", "a", "0x", ";", "{ }\n"])
def test_time_is_linear(junk: str) -> None:
    """Long texts that stop the parser late or early cost no more than their length."""
    text = HEADER + ".visible .entry k() { ret;\n" + junk * 100_000
    start = time.process_time()
    with pytest.raises(InputError):
        parse_ptx(text)
    assert time.process_time() - start < 3


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_text(data: st.DataObject) -> None:
    """Cut off, overwritten or with words exchanged: read, or refused with a place."""
    text = kernel(BODY)
    cut = data.draw(st.integers(0, len(text)))
    insert = data.draw(st.text("{}()[];,.:@!%|+-<>=\"'/*0123456789abrx \n\x00é", max_size=6))
    drop = data.draw(st.integers(0, 12))
    keep = data.draw(st.booleans())
    damaged = text[:cut] + insert + (text[cut + drop :] if keep else "")
    try:
        print_ptx(parse_ptx(damaged, "k.ptx"))
    except XttirError as error:
        location = getattr(error, "location", None)
        assert location is not None
        assert location.line > 0


def test_a_function_is_defined_once() -> None:
    head = ".version 8.6\n.target sm_90a\n.address_size 64\n"
    twice = ".func f();\n.func f() { ret; }\n.func f() { ret; }\n"
    with pytest.raises(InputError, match="`f` is defined twice") as error:
        parse_ptx(head + twice, "twice.ptx")
    assert error.value.location is not None
    assert error.value.location.line == 6


@pytest.mark.parametrize("literal", ["18446744073709551616", "0x10000000000000000"])
def test_constants_have_64_bits(literal: str):
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k() {{
    .reg .b64 %rd<2>;
    mov.u64 %rd1, {literal};
    ret;
}}
"""
    with pytest.raises(InputError, match="does not fit in 64 bits") as error:
        parse_ptx(text, "k.ptx")
    assert error.value.location is not None
    assert error.value.location.line == 6
