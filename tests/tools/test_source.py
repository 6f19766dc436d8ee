from __future__ import annotations

from pathlib import Path

import pytest

from xttir.diagnostics import Location
from xttir.tools import source

TEXT = """\
def outer():
    import triton

    @triton.jit
    def kernel(x, o, n):
        i = tl.arange(0, 16); m = i < n
        v = tl.load(x + i).to(tl.float32) + tl.load(x)
\ttab = tl.store(o, v)
        s = "é" + tl.load(x)
        tl.store(
            o,
            v,
            mask=m)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "a.py"
    path.write_text(TEXT.replace("\t", "        "), encoding="utf-8")
    return str(path)


def marked(location: Location) -> str:
    shown = source.excerpt(location)
    assert shown is not None
    return shown.lines[0][shown.start : shown.end]


def test_the_call_that_the_role_names_is_marked(file: str):
    assert marked(Location(file, 7, 13, "load")) == "tl.load(x + i)"
    assert marked(Location(file, 7, 13, "load by program (1, 0, 0)")) == "tl.load(x + i)"
    whole = "tl.load(x + i).to(tl.float32) + tl.load(x)"
    assert marked(Location(file, 7, 13)) == whole
    assert marked(Location(file, 7, 45, "load")) == "tl.load(x)"


def test_columns_of_dedented_kernels_are_put_right(file: str):
    compiled = Location(file, 7, 13 - 4, "load")
    assert source.corrected(compiled).column == 13
    assert marked(compiled) == "tl.load(x + i)"
    there = Location(file, 7, 13, "load")
    assert source.corrected(there) is there


def test_columns_count_characters_not_bytes(file: str):
    assert marked(Location(file, 9, 19, "load")) == "tl.load(x)"


def test_a_line_without_column_is_marked_whole(file: str):
    assert marked(Location(file, 6)) == "i = tl.arange(0, 16); m = i < n"


def test_a_statement_of_several_lines_is_shown_whole(file: str):
    shown = source.excerpt(Location(file, 10))
    assert shown is not None
    assert len(shown.lines) == 4
    assert shown.first == 10


def test_tabs_move_carets_with_the_text(tmp_path: Path):
    path = tmp_path / "t.py"
    path.write_text("if 1:\n\tx = f(1)\n")
    shown = source.excerpt(Location(str(path), 2, 6))
    assert shown is not None
    assert shown.lines == ("    x = f(1)",)
    assert shown.lines[0][shown.start : shown.end] == "f(1)"


def test_what_does_not_parse_is_shown_as_its_line(tmp_path: Path):
    path = tmp_path / "k.cu"
    path.write_text("__global__ void k() {\n  o[0] = 1;\n}\n")
    assert marked(Location(str(path), 2, 3)) == "o"
    assert marked(Location(str(path), 2)) == "o[0] = 1;"


def test_places_that_do_not_exist_have_no_excerpt(file: str):
    assert source.excerpt(Location(file, 99)) is None
    assert source.excerpt(Location(file, 0)) is None
    assert source.excerpt(Location("", 1)) is None
    assert source.excerpt(Location("/nowhere.py", 1)) is None
