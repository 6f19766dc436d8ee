"""A package outside of xttir adds a dialect: found by its entry points, run and checked as ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "tilekit_package"
DATA = Path(__file__).parents[1] / "data"

SUMS = """
module {
  tt.func public @sums(%x: !tt.ptr<f32>, %total: !tt.ptr<f32>, %n: i32) {
    %lanes = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %p = tt.addptr %xs, %lanes : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    %v = tt.load %p : tensor<4x!tt.ptr<f32>>
    %w = tilekit.square_sum %v, %v : tensor<4xf32>
    tt.store %p, %w : tensor<4x!tt.ptr<f32>>
    %one = arith.constant 1.0 : f32
    %q = tt.addptr %total, %n : !tt.ptr<f32>, i32
    tilekit.bump %q, %one : !tt.ptr<f32>, f32
    tt.return
  }
}
"""

ROWS = (DATA / "modules" / "rows.ttgir").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages in which tilekit is installed, as its pyproject says."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(PACKAGE / "tilekit", folder / "tilekit")
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture
def xttir(site: Path, tmp_path: Path):
    def run(text: str, suffix: str, command: str, *words: str) -> tuple[int, str]:
        file = tmp_path / f"module{suffix}"
        file.write_text(text)
        paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run(
            [sys.executable, "-m", *command.split(), str(file), *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_without_the_package_the_op_is_unknown(tmp_path: Path) -> None:
    file = tmp_path / "m.ttir"
    file.write_text(SUMS)
    done = subprocess.run(
        [sys.executable, "-m", "xttir", "run", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "tilekit.square_sum is not registered" in done.stderr


def test_its_ops_run(xttir) -> None:
    words = ("--arg", "x=arange:[4]", "--arg", "total=zeros:[1]", "--arg", "n=0")
    code, text = xttir(SUMS, ".ttir", "xttir run", *words)
    assert code == 0, text
    assert "now [ 0., 2., 6., 12.]" in text
    assert "total f32[1]: all elements changed, now [1.]" in text


def test_its_accesses_are_checked_for_bounds(xttir) -> None:
    words = ("--arg", "x=arange:[4]", "--arg", "total=zeros:[1]", "--arg", "n=1")
    code, text = xttir(SUMS, ".ttir", "xttir run", *words)
    assert code == 1
    assert "error[out-of-bounds]: load past the end of `total`" in text
    assert "tilekit.bump" in text


def test_its_accesses_are_checked_for_races(xttir) -> None:
    words = ("--arg", "total=zeros:[1]", "--arg", "n=0", "--grid", "2")
    code, text = xttir(SUMS, ".ttir", "xttir run", *words)
    assert code == 1
    assert "error[race]: programs race on `total`" in text


def test_it_reads_and_writes_shared_memory(xttir) -> None:
    code, text = xttir(ROWS, ".ttgir", "xttir run", "--arg", "x=arange:[32]")
    assert code == 0, text
    assert "now [31., 30., 29., ..., 2., 1., 0.]" in text


def test_its_accesses_to_shared_memory_are_ordered(xttir) -> None:
    early = ROWS.replace("num = 0", "num = 1")
    code, text = xttir(early, ".ttgir", "xttir run", "--arg", "x=arange:[32]")
    assert code == 1
    assert "error[race]" in text
    assert "tilekit.reverse" in text


def test_its_passes_and_dialects_are_known_to_the_driver(xttir) -> None:
    code, text = xttir(SUMS, ".ttir", "xttir.tools.xttir_opt", "--canonicalize")
    assert code == 0, text
    assert "tilekit.square_sum %v, %v : tensor<4xf32>" in text


PTX = (DATA / "verify" / "reverse.ptx").read_text()
CLEAR = PTX.replace("bar.sync 0;", "bar.sync 0;\n\ttilekit.clear.shared.b32 [%r4];\n\tbar.sync 0;")


def test_its_instructions_run(xttir) -> None:
    assert CLEAR != PTX
    launch = str(DATA / "verify" / "reverse.json")
    code, text = xttir(CLEAR, ".ptx", "xttir run", "--launch", launch)
    assert code == 1
    assert "`y` differs from its reference in" in text


def test_its_instructions_are_verified(xttir) -> None:
    launch = str(DATA / "verify" / "reverse.json")
    code, text = xttir(CLEAR, ".ptx", "xttir verify", "--launch", launch)
    assert code == 0, text
    late = CLEAR.replace("b32 [%r4];\n\tbar.sync 0;", "b32 [%r4];")
    code, text = xttir(late, ".ptx", "xttir verify", "--launch", launch)
    assert code == 1
    assert "error[race]" in text
    assert "tilekit.clear" in text
