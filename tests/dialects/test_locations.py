"""Locations: every form Triton prints, aliases in any order, and the places they stand for."""

from __future__ import annotations

from io import StringIO

import pytest
from xdsl.dialects.builtin import FileLineColLoc, UnknownLoc
from xdsl.ir import Operation

from xttir.diagnostics import InputError, Location
from xttir.dialects import arith, tt
from xttir.dialects.locations import CALLED_FROM, location_of, locations_of
from xttir.dialects.syntax.printer import TTPrinter
from xttir.frontends.mlir import parse_module

MODULE = """\
{before}
module {{
  tt.func @f(%x: i32 {argument}) {{
    %0 = arith.addi %x, %x : i32 {location}
    tt.return {last}
  }}{function}
}}
{after}
"""


def module(location: str = "", after: str = "", **others: str) -> str:
    slots = dict.fromkeys(("before", "argument", "last", "function"), "") | others
    return MODULE.format(location=location, after=after, **slots)


def addition(text: str) -> Operation:
    (op,) = (op for op in parse_module(text, "m.ttir").walk() if isinstance(op, arith.AddiOp))
    return op


@pytest.mark.parametrize(
    ("location", "places"),
    [
        ('loc("k.py":7:9)', [("k.py", 7, 9, "")]),
        ('loc("acc"("k.py":7:9))', [("k.py", 7, 9, "")]),
        ('loc("acc"("b"("k.py":7:9)))', [("k.py", 7, 9, "")]),
        (
            'loc(callsite("k.py":7:9 at "m.py":3:1))',
            [("k.py", 7, 9, ""), ("m.py", 3, 1, CALLED_FROM)],
        ),
        (
            'loc(callsite("x"("k.py":7:9) at callsite("m.py":3:1 at "n.py":2:2)))',
            [("k.py", 7, 9, ""), ("m.py", 3, 1, CALLED_FROM), ("n.py", 2, 2, CALLED_FROM)],
        ),
        ('loc(callsite(unknown at "m.py":3:1))', [("m.py", 3, 1, "")]),
        ('loc(fused["k.py":7:9, "m.py":3:1])', [("k.py", 7, 9, ""), ("m.py", 3, 1, "")]),
        ('loc(fused<"cse">["k.py":7:9, "k.py":7:9])', [("k.py", 7, 9, "")]),
        ('loc(fused<{a = 1 : i32}>["k.py":7:9])', [("k.py", 7, 9, "")]),
        ('loc("k.py":7:9 to :12)', [("k.py", 7, 9, "")]),
        ('loc("k.py":7:9 to 8:2)', [("k.py", 7, 9, "")]),
        ('loc("a\\"b.py":7:9)', [('a"b.py', 7, 9, "")]),
        ('loc("only a name")', []),
        ("loc(unknown)", []),
    ],
)
def test_forms(location: str, places: list[tuple[str, int, int, str]]) -> None:
    op = addition(module(location))
    assert locations_of(op) == tuple(Location(*place) for place in places)
    first = Location(*places[0]) if places else Location("")
    assert location_of(op) == first
    assert location_of(op.results[0]) == first


@pytest.mark.parametrize(
    "location",
    [
        'loc("k.py":7:9)',
        'loc("acc"("k.py":7:9))',
        'loc("only a name")',
        'loc(callsite("x"("k.py":7:9) at callsite("m.py":3:1 at "n.py":2:2)))',
        'loc(fused<"cse">["k.py":7:9, "m.py":3:1])',
        'loc(fused<{a = 1 : i32}>["k.py":7:9])',
        'loc("k.py":7:9 to :12)',
        'loc("k.py":7:9 to 8:2)',
        "loc(unknown)",
    ],
)
def test_printed_as_read(location: str) -> None:
    stream = StringIO()
    TTPrinter(stream).print_attribute(addition(module(location)).location)
    assert stream.getvalue() == location


def test_aliases_after_their_use_and_in_any_order() -> None:
    text = module(
        "loc(#loc4)",
        after="""\
#loc4 = loc(callsite(#loc3 at #loc1))
#loc1 = loc("m.py":3:1)
#loc3 = loc("acc"(#loc2))
#loc2 = loc("k.py":7:9)
""",
        before='#loc = loc("k.py":1:1)',
        argument='loc("x"(#loc))',
        function=" loc(#loc)",
    )
    op = addition(text)
    assert locations_of(op) == (
        Location("k.py", 7, 9),
        Location("m.py", 3, 1, CALLED_FROM),
    )
    assert location_of(op.operands[0]) == Location("k.py", 1, 1)


@pytest.mark.parametrize(
    ("location", "after", "message", "line"),
    [
        ("loc(#loc9)", "", "undefined symbol alias '#loc9'", 4),
        ("loc(#a)", "#a = loc(callsite(#b at #b))\n#b = loc(callsite(#a at #a))", "itself", 4),
        (
            "loc(#a)",
            '#a = loc("k.py":1:1)\n#a = loc("k.py":1:1)',
            "re-declaration of alias '#a'",
            9,
        ),
        ('loc("k.py":7)', "", "Expected ':'", 4),
        ('loc(nowhere("k.py":7:1))', "", "Unsupported location type", 4),
        ('loc("k.py":7:9', "", "'\\)' expected", 5),
    ],
)
def test_errors(location: str, after: str, message: str, line: int) -> None:
    with pytest.raises(InputError, match=message) as error:
        parse_module(module(location, after), "m.ttir")
    assert error.value.location is not None
    assert error.value.location.line == line


def test_ops_without_location_are_placed_in_the_text() -> None:
    """As MLIR does, so that faults in hand-written IR have a line."""
    op = addition(module())
    assert location_of(op) == Location("m.ttir", 4, 5)
    assert location_of(op.operands[0]) == Location("m.ttir", 3, 14)


def test_an_unknown_location_stays_unknown() -> None:
    assert isinstance(addition(module("loc(unknown)")).location, UnknownLoc)
    text = module("loc(#loc7)", after="#loc7 = loc(unknown)")
    assert isinstance(addition(text).location, UnknownLoc)


def test_every_location_is_there() -> None:
    """Ops and arguments of a module that Triton printed: file, line, column of each."""
    text = module(
        'loc("k.py":5:5)',
        argument='loc("x"("k.py":4:4))',
        last='loc("k.py":6:6)',
        function=' loc("k.py":3:3)',
    )
    parsed = parse_module(text)
    found = {op.name: op.location for op in parsed.walk()}
    lines = {
        name: attr.line.data for name, attr in found.items() if isinstance(attr, FileLineColLoc)
    }
    assert lines == {"arith.addi": 5, "tt.return": 6, "tt.func": 3, "builtin.module": 2}
    (func,) = (op for op in parsed.walk() if isinstance(op, tt.FuncOp))
    assert location_of(func.args[0]) == Location("k.py", 4, 4)


def test_block_arguments_in_generic_regions() -> None:
    text = """\
#loc = loc("k.py":2:2)
module {
  tt.func @f(%x: tensor<4xf32> loc("x"(#loc))) {
    %r = "tt.reduce"(%x) <{axis = 0 : i32}> ({
    ^bb0(%a: f32 loc(callsite(#loc1 at #loc)), %b: f32 loc(unknown)):
      tt.reduce.return %a : f32 loc(#loc1)
    }) : (tensor<4xf32>) -> f32 loc(#loc1)
    tt.return loc(#loc1)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("s.py":9:9)
"""
    (op,) = (op for op in parse_module(text).walk() if isinstance(op, tt.ReduceOp))
    a, b = op.combine_op.block.args
    assert locations_of(a) == (Location("s.py", 9, 9), Location("k.py", 2, 2, CALLED_FROM))
    assert locations_of(b) == ()
    assert location_of(op) == Location("s.py", 9, 9)


@pytest.mark.parametrize("where", ["before", "after"])
def test_paths_beyond_ascii(where: str) -> None:
    path, name = "/home/j\\C3\\BCrgen/k.py", "\\CE\\B1"
    aliases = f'#f = loc("{path}":3:5)\n#n = loc("{name}"(#f))'
    for location in ("loc(#f)", "loc(#n)", f'loc("{path}":3:5)', f'loc(fused["{path}":3:5])'):
        text = module(location, **{where: aliases})
        assert location_of(addition(text)) == Location("/home/jürgen/k.py", 3, 5)
        printed = StringIO()
        TTPrinter(stream=printed, print_debuginfo=True).print_op(parse_module(text))
        assert path in printed.getvalue()
