"""Reading text: the lexer gives xDSL's tokens, aliases and types resolve, errors have a place."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import BytesAttr, StringAttr
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from tests.conftest import shared_root
from xttir.diagnostics import InputError, Location
from xttir.dialects import tt, ttg
from xttir.dialects.context import make_context
from xttir.dialects.ods import element_type_of
from xttir.dialects.syntax.lexer import FastLexer
from xttir.dialects.syntax.parser import TTParser
from xttir.frontends.mlir import parse_module

DATA = sorted((Path(__file__).parent.parent / "data/dialects").glob("*.ttir"))
ODD = """%a#1 0x8xf32 0x 1.5e-3 1. 12 -> - -12 {-# #-} "a\\"b" "\\FF" "x" @"s p" @foo ^bb0 #x !y<z>
// a comment, 100% ... of text
... ? * + / | :: {} { } %0:2 tensor<4x?xf32> a.b.c$d_e /* */"""


def tokens(lexer: MLIRLexer) -> list[tuple[MLIRTokenKind, int, int, str]]:
    found = []
    while True:
        token = lexer.lex()
        if token.kind is MLIRTokenKind.EOF:
            return found
        found.append((token.kind, token.span.start, token.span.end, token.text))


@pytest.mark.parametrize("text", [ODD, *(p.read_text() for p in DATA)])
def test_lexer_gives_the_tokens_of_xdsl(text: str) -> None:
    assert tokens(FastLexer(Input(text, "t"))) == tokens(MLIRLexer(Input(text, "t")))


@pytest.mark.parametrize("text", ["€", "1 ` 2", '"open', '"line\nbreak"', "@1", "% x"])
def test_lexer_refuses_what_xdsl_refuses(text: str) -> None:
    messages = []
    for cls in (FastLexer, MLIRLexer):
        with pytest.raises(Exception) as error:  # noqa: PT011
            tokens(cls(Input(text, "t")))
        messages.append((type(error.value), getattr(error.value, "msg", "")))
    assert messages[0] == messages[1]


def test_aliases_inside_types_belong_to_their_module() -> None:
    """Types are remembered by their text, but `#b` means something else in the next module."""

    def encoding(order: str) -> object:
        rest = "sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [1, 1]"
        text = f"""
#b = #ttg.blocked<{{{rest}, order = {order}}}>
tt.func @f(%x: tensor<4x4xf32, #b>) {{ tt.return }}"""
        (func,) = (op for op in parse_module(text).walk() if isinstance(op, tt.FuncOp))
        type_ = func.function_type.inputs.data[0]
        return type_.encoding.numbers("order")  # pyright: ignore

    assert encoding("[0, 1]") == (0, 1)
    assert encoding("[1, 0]") == (1, 0)


def test_aliases_of_aliases_belong_to_their_module() -> None:
    """So do those that other aliases are made of, whatever they are called."""

    def parent(order: str, name: str) -> tuple[int, ...]:
        rest = "sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [1, 1]"
        text = f"""
#{name} = #ttg.blocked<{{{rest}, order = {order}}}>
#s = #ttg.slice<{{dim = 0, parent = #{name}}}>
tt.func @f(%x: tensor<4xf32, #s>) {{ tt.return }}"""
        (func,) = (op for op in parse_module(text).walk() if isinstance(op, tt.FuncOp))
        encoding = func.function_type.inputs.data[0].encoding  # pyright: ignore
        return encoding.get("parent").numbers("order")

    for name in ("b", "b1", "b"):
        assert parent("[0, 1]", name) == (0, 1)
        assert parent("[1, 0]", name) == (1, 0)


def test_type_aliases() -> None:
    text = """
!p = !tt.ptr<f32>
tt.func @f(%x: !p, %y: tensor<4x!p>) { tt.return }"""
    (func,) = (op for op in parse_module(text).walk() if isinstance(op, tt.FuncOp))
    pointer = tt.PointerType(tt.pointee_type_of(func.args[0].type))
    assert func.args[0].type == pointer
    assert element_type_of(func.args[1].type) == pointer


def test_pointers_in_other_address_spaces() -> None:
    text = 'tt.func @f(%x: !tt.ptr<f32, "constant">, %y: !tt.ptr<i8, "descriptor">) { tt.return }'
    (func,) = (op for op in parse_module(text).walk() if isinstance(op, tt.FuncOp))
    x, y = (arg.type for arg in func.args)
    assert isinstance(x, tt.PointerType)
    assert isinstance(y, tt.PointerType)
    assert x.address_space.data == tt.PtrAddrSpace.CONSTANT
    assert y.address_space.data == tt.PtrAddrSpace.DESCRIPTOR
    assert str(x) == '!tt.ptr<f32, "constant">'
    assert str(y) == '!tt.ptr<i8, "descriptor">'


def test_values_used_before_their_definition() -> None:
    text = """
tt.func @f(%c: i1) {
  cf.br ^bb2
^bb1:
  %1 = arith.addi %0, %0 : i32
  tt.return
^bb2:
  %0 = arith.constant 1 : i32
  cf.br ^bb1
}"""
    parse_module(text)
    with pytest.raises(InputError, match="values used but not defined"):
        parse_module("tt.func @f() { %1 = arith.addi %0, %0 : i32 tt.return }")


def test_encodings_can_be_read() -> None:
    text = """
#b = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [1, 1],
  order = [1, 0]}>
tt.func @f(%x: tensor<4xf32, #ttg.slice<{dim = 0, parent = #b}>>) { tt.return }"""
    (func,) = (op for op in parse_module(text).walk() if isinstance(op, tt.FuncOp))
    slice_ = func.args[0].type.encoding  # pyright: ignore
    assert isinstance(slice_, ttg.SliceEncodingAttr)
    assert slice_.number("dim") == 0
    parent = slice_.get("parent")
    assert isinstance(parent, ttg.BlockedEncodingAttr)
    assert parent.numbers("sizePerThread") == (1, 4)
    assert parent.get("CGALayout") is None


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("module {", "expected an operation, a block label or '}'", 1, 9),
        ("module {\n  tt.func @f(%x: i32) {\n", "block label", 3, 1),
        ("tt.func @f(%x: ) { tt.return }", "type", 1, 16),
        ("tt.func @f(%x: !tt.ptr<tensor<4xf32>>) { tt.return }", "pointer types must point", 1, 38),
        ('tt.func @f(%x: !tt.ptr<f32, "moon">) { tt.return }', "address space 'moon'", 1, 29),
        ("tt.func @f() {\n  tt.fly\n  tt.return\n}", "tt.fly is not registered", 2, 3),
        ("tt.func @f() {\n  %0 = tt.get_program_id w : i32\n}", "one of x, y, z", 2, 26),
        ("tt.func @f(%a: i32) {\n  %a = arith.addi %a, %a : i32\n}", "already defined", 2, 3),
        ("tt.func @f(%a: i32) {\n  %0 = arith.addi %a, %a : f32\n}", "previously used", 2, 19),
        ("tt.func @f() {\n  %0:2 = tt.get_program_id x : i32\n}", "was given 2 to bind", 2, 3),
        ('"tt.func"() <{sym_name = 1 : i32}> ({}) : () -> ()', "'tt.func' op", 1, 1),
        ("#b = #ttg.blocked<{order = [1, order = [0]}>\nmodule {}", "attribute", 1, 32),
        ("tt.func @f(%x: tensor<4x!tt.ptr<f32>) { tt.return }", "Expected '>'", 1, 37),
    ],
)  # fmt: skip
def test_errors_have_a_place(text: str, message: str, line: int, column: int) -> None:
    with pytest.raises(InputError) as error:
        parse_module(text, "bad.ttir")
    assert message in error.value.what
    assert "\n" not in error.value.what
    assert error.value.location == Location("bad.ttir", line, column)
    assert error.value.exit_code == 2


def error_of(text: str, name: str) -> InputError | None:
    try:
        parse_module(text, name)
    except InputError as error:
        return error
    return None


def test_any_beginning_of_a_module_is_an_error_or_a_module() -> None:
    """Text cut short anywhere gives a located error, never another exception."""
    text = next(p for p in DATA if p.name == "descriptors.triton39.ttir").read_text()
    for end in range(0, len(text), 7):
        error = error_of(text[:end], "cut.ttir")
        assert error is None or (error.location and error.location.line)


def test_any_byte_changed_is_an_error_or_a_module() -> None:
    text = next(p for p in DATA if p.name == "descriptors.triton39.ttir").read_text()
    for position in range(0, len(text), 11):
        for byte in '"<%':
            changed = text[:position] + byte + text[position + 1 :]
            error = error_of(changed, "changed.ttir")
            assert error is None or (error.location and error.location.line)


def test_deep_nesting_is_an_input_error() -> None:
    with pytest.raises(InputError, match="nested too deeply"):
        parse_module("tt.func @f(%c: i1) {" + "scf.if %c {" * 3000, "deep.ttir")


def test_unregistered_ops_on_request() -> None:
    text = 'tt.func @f() { "foo.bar"() {a = #foo.b<x>} : () -> () tt.return }'
    with pytest.raises(InputError, match=r"foo\.bar is not registered"):
        parse_module(text)
    parser = TTParser(make_context(allow_unregistered=True), text)
    assert "foo.bar" in str(parser.parse_module())


def test_speed() -> None:
    """A hundred ops take at most 60 ms of CPU, the least of some runs: others only ever add."""
    import time

    root = shared_root()
    if root is None:
        pytest.skip("no corpus (set XTTIR_SHARED)")
    paths = sorted((root / "corpus/triton").glob("fla*/*/ttir.loc.mlir"))[:8]
    texts = [path.read_text() for path in paths]
    ops = sum(1 for text in texts for _ in parse_module(text).walk())
    context = make_context()

    def measure() -> float:
        start = time.process_time()
        for text in texts:
            TTParser(context, text).parse_module()
        return (time.process_time() - start) / ops * 100

    assert any(measure() < 0.060 for _ in range(10))


def test_texts_beyond_ascii_are_strings_as_in_mlir() -> None:
    text = 'module attributes {a = "\\C3\\BC", b = "\\FF"} {}'
    attributes = parse_module(text).attributes
    assert attributes["a"] == StringAttr("ü")
    assert attributes["b"] == BytesAttr(b"\xff")
