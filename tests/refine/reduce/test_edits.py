"""Single edits: what each one leaves of a module, and that it is valid."""

from __future__ import annotations

import pytest

from xttir.dialects.syntax import verifier
from xttir.frontends.mlir import parse_module
from xttir.refine.reduce import shapes, structure
from xttir.refine.reduce.build import (
    add_argument,
    bodies,
    constant,
    droppable,
    inner_ops,
    module_text,
    op_count,
    remove_argument,
    remove_dead,
    share_constants,
)
from xttir.refine.reduce.drop import Style, drop

LOOP = """
tt.func public @k(%out: !tt.ptr<i32>, %n: i32, %m: i32 {tt.divisibility = 16 : i32}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c9 = arith.constant 9 : i32
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c0, %b = %m) -> (i32, i32) : i32 {
    %x = arith.addi %a, %i : i32
    %y = arith.addi %b, %x : i32
    scf.yield %x, %y : i32, i32
  } {tt.flatten}
  %t = arith.cmpi eq, %r#0, %c9 : i32
  %v = scf.if %t -> (i32) {
    scf.yield %r#1 : i32
  } else {
    scf.yield %c9 : i32
  }
  tt.store %out, %v : !tt.ptr<i32>
  tt.return
}
"""

WHILE = """
tt.func public @k(%out: !tt.ptr<i32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r:2 = scf.while (%a = %c0, %b = %n) : (i32, i32) -> (i32, i32) {
    %c = arith.cmpi slt, %a, %n : i32
    scf.condition(%c) %a, %b : i32, i32
  } do {
  ^bb0(%x: i32, %y: i32):
    %z = arith.addi %x, %c1 : i32
    scf.yield %z, %y : i32, i32
  }
  tt.store %out, %r#0 : !tt.ptr<i32>
  tt.return
}
"""

TILE = """
tt.func public @k(%x: !tt.ptr<f32>, %n: i32) {
  %cst = arith.constant dense<1.5> : tensor<64xf32>
  %lanes = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %ns = tt.splat %n : i32 -> tensor<64xi32>
  %mask = arith.cmpi slt, %lanes, %ns : tensor<64xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %p = tt.addptr %xs, %lanes : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %v = tt.load %p, %mask, %cst : tensor<64x!tt.ptr<f32>>
  %row = tt.expand_dims %v {axis = 0 : i32} : tensor<64xf32> -> tensor<1x64xf32>
  %back = tt.reshape %row : tensor<1x64xf32> -> tensor<64xf32>
  tt.store %p, %back, %mask : tensor<64x!tt.ptr<f32>>
  tt.return
}
"""


def results(text: str, step) -> list[str]:
    """The valid modules that the edits of a step make of `text`."""
    module = parse_module(text)
    found = []
    for edit in step(module):
        clone = module.clone()
        if edit(clone):
            try:
                verifier.verify(clone)
            except verifier.InvalidOp:
                continue
            found.append(module_text(clone))
    return found


def changed(text: str, edit) -> str:
    module = parse_module(text).clone()
    assert edit(module)
    verifier.verify(module)
    out = module_text(module)
    # What was made can be read again.
    parse_module(out)
    return out


def positions(text: str, name: str) -> list[int]:
    return [n for n, op in enumerate(inner_ops(parse_module(text))) if op.name == name]


def test_a_dropped_loop_leaves_its_initial_values() -> None:
    out = changed(LOOP, drop(positions(LOOP, "scf.for")))
    assert "scf.for" not in out
    assert "arith.cmpi eq, %c0, %c9" in out
    assert "scf.yield %m" in out


@pytest.mark.parametrize(
    ("style", "text"),
    [
        (Style.OPERAND, "arith.cmpi eq, %c0"),
        (Style.ZERO, "arith.cmpi eq, %r"),
        (Style.ONE, "arith.constant 1"),
        (Style.EARLIER, "arith.cmpi eq, %c9"),
        (Style.ARGUMENT, "%n: i32, %m: i32 {tt.divisibility = 16 : i32}, %"),
    ],
)
def test_styles_of_dropping(style, text) -> None:
    assert text in changed(LOOP, drop(positions(LOOP, "scf.for"), style))


def test_constants_are_not_dropped_for_themselves() -> None:
    module = parse_module(LOOP)
    names = [inner_ops(module)[n].name for n in droppable(module)]
    assert "arith.constant" not in names
    assert "scf.for" in names


def test_pointers_of_a_tile_come_from_an_argument() -> None:
    out = changed(TILE, drop(positions(TILE, "tt.addptr"), Style.ARGUMENT))
    assert "tt.addptr" not in out
    assert "tt.load" in out


def test_loops_and_branches_are_unwrapped() -> None:
    found = results(LOOP, structure.unwrap)
    assert len(found) == 3
    assert "scf.for" not in found[0]
    assert "arith.addi %c0, %c0" in found[0]
    assert all("scf.if" not in text for text in found[1:])
    assert "scf.while" not in results(WHILE, structure.unwrap)[0]


def test_carried_values_go_one_by_one() -> None:
    found = results(LOOP, structure.carried_values)
    assert len(found) == 3
    assert "iter_args(%b = %m)" in found[0]
    assert "iter_args(%a = %c0)" in found[1]
    assert "scf.if %t {" in found[2]
    found = results(WHILE, structure.carried_values)
    assert len(found) == 4
    assert any("scf.while (%a = %c0)" in text for text in found)


def test_trip_counts() -> None:
    found = results(LOOP, structure.trip_counts)
    assert any("to %0 step" in text and "%0 = arith.constant 1" in text for text in found)


def test_parameters_become_constants_or_go() -> None:
    found = results(LOOP, structure.constant_arguments)
    assert len(found) == 6
    assert "@k(%out: !tt.ptr<i32>, %m: i32 {tt.divisibility = 16 : i32})" in found[0]
    unused = changed(LOOP, drop(positions(LOOP, "scf.for"), Style.ZERO))
    assert "@k(%out: !tt.ptr<i32>)" in results(unused, structure.unused_arguments)[0]


def test_masks_and_other_values_go() -> None:
    found = results(TILE, structure.optional_operands)
    assert any("tt.load %p, %mask :" in text for text in found)
    assert any("tt.store %p, %back :" in text for text in found)


def test_constants_shrink() -> None:
    found = results(LOOP, structure.constants)
    assert any("arith.constant 4 : i32" in text for text in found)
    assert not any("arith.constant 9 : i32" in text for text in found if "constant 4" in text)


def test_attributes_go() -> None:
    found = results(LOOP, structure.attributes)
    assert any("tt.flatten" not in text for text in found)
    assert any("tt.divisibility" not in text for text in found)


def test_functions_that_nobody_calls_go() -> None:
    text = LOOP + "tt.func private @other() {\n  tt.return\n}\n"
    assert all("@k" in t or "@other" in t for t in results(text, structure.functions))
    assert len(results(text, structure.functions)) == 2


def test_dimensions_change_everywhere() -> None:
    found = results(TILE, shapes.smaller_dimensions)
    assert "64" not in found[0]
    assert "end = 1 : i32" in found[0]
    assert any("tensor<1x16xf32>" in text for text in found)


def test_tiles_become_scalars() -> None:
    (found,) = results(TILE, shapes.scalars)
    assert "tensor" not in found
    assert "arith.constant 1.500000e+00 : f32" in found
    assert "tt.reshape" not in found


def test_tidying_up() -> None:
    module = parse_module(
        """
tt.func public @k(%out: !tt.ptr<i32>, %n: i32) {
  %a = arith.constant 1 : i32
  %b = arith.constant 1 : i32
  %dead = arith.muli %a, %n : i32
  %c = arith.cmpi eq, %a, %b : i32
  scf.if %c {
    %d = arith.constant 1 : i32
    tt.store %out, %d : !tt.ptr<i32>
  }
  tt.return
}
"""
    ).clone()
    before = op_count(module)
    remove_dead(module)
    assert op_count(module) == before - 1
    share_constants(module)
    verifier.verify(module)
    assert module_text(module).count("arith.constant") == 1


def test_parameters_are_added_and_removed_with_their_attributes() -> None:
    module = parse_module(LOOP).clone()
    function = next(bodies(module))
    new = add_argument(function, function.args[1].type)
    assert new.index == 3
    function.args[1].replace_all_uses_with(new)
    remove_argument(function, 1)
    verifier.verify(module)
    assert "%m: i32 {tt.divisibility = 16 : i32}, %" in module_text(module)


@pytest.mark.parametrize("ty", ["i1", "i64", "bf16", "f8E4M3FN", "tensor<4x2xf16>", "tensor<2xi1>"])
def test_constants_of_every_type(ty) -> None:
    module = parse_module(f"tt.func @k(%x: {ty}) {{\n  tt.return\n}}\n").clone()
    function = next(bodies(module))
    new = constant(function.args[0].type, 1)
    assert new is not None
    first = function.body.blocks[0].first_op
    assert first is not None
    assert first.parent is not None
    first.parent.insert_op_before(new, first)
    verifier.verify(module)
    parse_module(module_text(module))


def test_pointers_have_no_constants() -> None:
    function = next(bodies(parse_module(LOOP)))
    assert constant(function.args[0].type) is None
