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
