"""`xttir verify script.py`: launches of Triton kernels as PTX with launch descriptions."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.clean_process import xttir
from xttir.frontends.launch_description import TensorMapParam, load, schema
from xttir.frontends.launch_description.match import match
from xttir.frontends.ptx import parse_ptx

SCRIPTS = Path(__file__).parent.parent / "data/scripts"


def verified(script: str, *args: str, cc: int, cwd: Path) -> dict[str, Any]:
    """The report of a script, which must be clean; its launches lie in `cwd`/dump."""
    options = ["--format", "json", "-o", "out.json", "--cc", str(cc), "--dump-launch", "dump"]
    done = xttir("verify", "--every-schedule", *options, str(SCRIPTS / script), *args, cwd=cwd)
    assert done.code == 0, done.stdout + done.stderr
    report = json.loads((cwd / "out.json").read_text())
    assert report["verdict"] == "verified"
    return report


@pytest.mark.parametrize(
    ("script", "args", "cc"),
    [
        ("matmul_pointer.py", ["128"], 80),
        ("matmul_tma.py", ["128"], 80),
        ("matmul_tma.py", ["128"], 90),
        ("matmul_device_desc.py", ["128"], 90),
        ("attention.py", ["128", "causal"], 90),
        pytest.param("matmul_persistent.py", ["512"], 80, marks=pytest.mark.slow),
        pytest.param("matmul_persistent.py", ["512"], 90, marks=pytest.mark.slow),
        pytest.param("matmul_tma.py", ["512"], 100, marks=pytest.mark.slow),
        pytest.param("matmul_persistent.py", ["512"], 100, marks=pytest.mark.slow),
        ("matmul_persistent.py", ["128", "ws"], 100),
        pytest.param("attention.py", ["512", "ws"], 100, marks=pytest.mark.slow),
        pytest.param("attention.py", ["512", "causal", "ws"], 100, marks=pytest.mark.slow),
    ],
)
def test_triton_kernels(script: str, args: list[str], cc: int, tmp_path: Path) -> None:
    report = verified(script, *args, cc=cc, cwd=tmp_path)
    (outcome,) = report["outcomes"]
    assert outcome["arch"].startswith(f"sm_{cc}")
    assert outcome["index"] == 1
    (ptx,) = (tmp_path / "dump").glob("*.ptx")
    (file,) = (tmp_path / "dump").glob("*.launch.json")
    jsonschema.validate(json.loads(file.read_text()), schema())
    launch = match(load(file), parse_ptx(ptx.read_text(), str(ptx)))
    maps = [p for p in launch.params if isinstance(p, TensorMapParam)]
    assert bool(maps) == (cc >= 90 and script not in ("matmul_pointer.py", "matmul_device_desc.py"))
    if maps:
        assert maps[0].swizzle == "128B"
        assert maps[0].box[0] == 64


def test_a_dumped_launch_runs(tmp_path: Path) -> None:
    verified("matmul_tma.py", "64", cc=90, cwd=tmp_path)
    (ptx,) = (tmp_path / "dump").glob("*.ptx")
    (file,) = (tmp_path / "dump").glob("*.launch.json")
    data = json.loads(file.read_text())
    data["ref"] = {"c": "(a.float() @ b.float().T).to(c.dtype)"}
    data["tolerance"] = {"rtol": 1e-2, "atol": 1e-2}
    file.write_text(json.dumps(data))
    done = xttir("run", str(ptx), "--launch", str(file), cwd=tmp_path)
    assert done.code == 0, done.stdout + done.stderr


INDEXED = """
import torch, triton, triton.language as tl

@triton.jit
def gather(table, x, y, BLOCK: tl.constexpr):
    page = tl.load(table + tl.program_id(0))
    offsets = tl.arange(0, BLOCK)
    tl.store(y + tl.program_id(0) * BLOCK + offsets, tl.load(x + page * BLOCK + offsets))

for pages in ([2, 0, 1], [2, 0, 1], [0, 1, 2]):
    table = torch.tensor(pages, device="cuda")
    x = torch.randn(3 * 128, device="cuda")
    y = torch.empty(3 * 128, device="cuda")
    gather[(3,)](table, x, y, BLOCK=128)
"""


def test_index_data_is_known_and_equal_launches_are_verified_once(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(INDEXED)
    words = [
        "verify",
        "--every-schedule",
        "--format",
        "json",
        "-o",
        "out.json",
        "--dump-launch",
        "d",
        "script.py",
    ]
    done = xttir(*words, cwd=tmp_path)
    assert done.code == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "out.json").read_text())
    assert [o["index"] for o in report["outcomes"]] == [1, 3]
    first = load(tmp_path / "d/gather.1.launch.json")
    assert list(first.tensors["table"].init) == [2, 0, 1]  # type: ignore[arg-type]
    assert first.tensors["y"].role == "out"
    assert not first.tensors["x"].known


def test_scripts_without_launches_and_scripts_that_fail(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("print('hello')\n")
    done = xttir("verify", "empty.py", cwd=tmp_path)
    assert done.code == 3
    assert "nothing was verified" in done.stderr
    (tmp_path / "bad.py").write_text("raise ValueError('mine')\n")
    done = xttir("verify", "bad.py", cwd=tmp_path)
    assert done.code == 2
    assert "ValueError: mine" in done.stderr
    done = xttir("verify", "none.py", cwd=tmp_path)
    assert done.code == 2
