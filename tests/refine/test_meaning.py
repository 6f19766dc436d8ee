"""Texts that mean the same have one normal form; others do not."""

from __future__ import annotations

from pathlib import Path

from xttir.refine.meaning import meaning

DATA = Path(__file__).parents[1] / "data" / "refine" / "meaning"
TTIR = (DATA / "scaled.ttir").read_text()
TTGIR = (DATA / "scaled.ttgir").read_text()


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def test_layouts_constants_and_names_do_not_matter() -> None:
    assert meaning(TTIR) == meaning(TTGIR)


def test_operands_matter() -> None:
    other = changed(TTGIR, "step %c1_i32", "step %arg1")
    assert meaning(other) != meaning(TTIR)


def test_constants_matter() -> None:
    assert meaning(changed(TTGIR, "dense<2.0", "dense<3.0")) != meaning(TTIR)


def test_types_matter() -> None:
    assert meaning(TTIR.replace("xf32>", "xf16>")) != meaning(TTIR)


def test_a_converted_value_is_still_the_right_one() -> None:
    other = changed(TTGIR, "ttg.convert_layout %1", "ttg.convert_layout %arg9")
    assert meaning(other) != meaning(TTIR)


def test_names_used_twice_in_regions_side_by_side() -> None:
    text = """\
module {
  tt.func @k(%arg0: i32, %arg1: !tt.ptr<i32>) {
    %0 = arith.cmpi eq, %arg0, %arg0 : i32
    scf.if %0 {
      %1 = arith.addi %arg0, %arg0 : i32
      %2 = arith.muli %1, %arg0 : i32
      tt.store %arg1, %A : !tt.ptr<i32>
    }
    scf.if %0 {
      %1 = arith.addi %arg0, %arg0 : i32
      %2 = arith.muli %1, %arg0 : i32
      tt.store %arg1, %B : !tt.ptr<i32>
    }
    tt.return
  }
}
"""
    one = text.replace("%A", "%1").replace("%B", "%2")
    other = text.replace("%A", "%1").replace("%B", "%1")
    assert meaning(one) != meaning(other)
    assert meaning(one) == meaning(one.replace("%1 ", "%x ").replace("%1,", "%x,"))


def test_shared_memory_encodings_matter() -> None:
    text = """\
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module {
  tt.func @k(%arg0: tensor<64xf32>) {
    %0 = ttg.local_alloc %arg0 : (tensor<64xf32>) -> !ttg.memdesc<64xf32, #shared, #smem>
    tt.return
  }
}
"""
    assert meaning(text) != meaning(changed(text, "vec = 1", "vec = 4"))
    assert meaning(text) == meaning(text.replace("#shared", "#shared1"))


LOOP = """\
module {
  tt.func @k(%arg0: i32, %arg1: !tt.ptr<i32>) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c3 = arith.constant 3 : i32
{before}    scf.for %arg2 = %c0 to %arg0 step %c1  : i32 {
{inside}      tt.store %p, %v : !tt.ptr<i32>
    }
    tt.return
  }
}
"""
TWICE = "%a = arith.addi %arg0, %c3 : i32", "%b = arith.addi %arg0, %c3 : i32"


def loop(before: tuple[str, ...], inside: tuple[str, ...]) -> str:
    """The loop with ops before it and in it, the last two of which make %p and %v."""
    text = LOOP.replace("{before}", "".join(f"    {line}\n" for line in before))
    return text.replace("{inside}", "".join(f"      {line}\n" for line in inside))


def stored(value: str) -> tuple[str, str]:
    return (
        f"%p = tt.addptr %arg1, {value} : !tt.ptr<i32>, i32",
        f"%v = arith.muli {value}, %arg2 : i32",
    )


def test_where_and_how_often_a_value_is_computed_does_not_matter() -> None:
    inside = loop((), (*TWICE, *stored("%b")))
    assert meaning(inside) == meaning(loop(TWICE[:1], stored("%a")))
    assert meaning(inside) == meaning(loop(TWICE, reversed_uses()))
    other = loop(TWICE[:1], stored("%arg0"))
    assert meaning(inside) != meaning(other)


def reversed_uses() -> tuple[str, str]:
    pointer, value = stored("%a")
    return value, pointer


def test_the_place_of_what_may_fail_matters() -> None:
    divided = "%a = arith.divsi %arg0, %x : i32"
    for by, same in (("%c3", True), ("%arg0", False), ("%c0", False)):
        op = divided.replace("%x", by)
        hoisted, inside = loop((op,), stored("%a")), loop((), (op, *stored("%a")))
        assert (meaning(hoisted) == meaning(inside)) is same


def test_the_place_of_promises_and_loads_matters() -> None:
    promise = "%a = arith.addi %arg0, %c3 {tt.divisibility = dense<16> : tensor<1xi32>} : i32"
    load = "%a = tt.load %arg1 : !tt.ptr<i32>"
    for op in (promise, load):
        assert meaning(loop((op,), stored("%a"))) != meaning(loop((), (op, *stored("%a"))))
        unused = loop((op,), stored("%arg0"))
        assert meaning(unused) != meaning(loop((), stored("%arg0")))


def test_indices_beyond_what_is_there_stay_in_place() -> None:
    memory = "!ttg.memdesc<2x64xi32, #shared, #smem, mutable>"
    view = "!ttg.memdesc<64xi32, #shared, #smem, mutable>"
    allocate = f"%m = ttg.local_alloc : () -> {memory}"
    for index, same in (("%c1", True), ("%c3", False), ("%arg0", False)):
        op = f"%w = ttg.memdesc_index %m[{index}] : {memory} -> {view}"
        use = f"ttg.local_dealloc %w : {view}"
        hoisted = loop((allocate, op), (use, *stored("%arg0")))
        inside = loop((allocate,), (op, use, *stored("%arg0")))
        assert (meaning(hoisted) == meaning(inside)) is same


def test_a_value_before_its_definition_is_left_alone() -> None:
    text = loop((), (*stored("%later"), TWICE[0].replace("%a", "%later")))
    assert meaning(text) == text
