"""The hook in Triton's compile pipeline: what it finds, and that it leaves the compile alone."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xttir import triton_hook

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)

FLATTENED = """
module {
  tt.func public @flat(%q: !tt.ptr<i32>, %out: !tt.ptr<i32>, %m: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r = scf.for %i = %c0 to %m step %c1 iter_args(%a = %c0) -> (i32) : i32 {
      %bound = tt.load %q : !tt.ptr<i32>
      %s = scf.for %j = %c0 to %bound step %c1 iter_args(%b = %a) -> (i32) : i32 {
        %t = arith.addi %b, %j : i32
        scf.yield %t : i32
      }
      scf.yield %s : i32
    } {tt.flatten}
    tt.store %out, %r : !tt.ptr<i32>
    tt.return
  }
}
"""

SCALE = """
module {
  tt.func public @scale(%x: !tt.ptr<f32>, %n: i32) {
    %lanes = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %ns = tt.splat %n : i32 -> tensor<64xi32>
    %mask = arith.cmpi slt, %lanes, %ns : tensor<64xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %p = tt.addptr %xs, %lanes : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %v = tt.load %p, %mask : tensor<64x!tt.ptr<f32>>
    %w = arith.addf %v, %v : tensor<64xf32>
    tt.store %p, %w, %mask : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Compiles a module with the installed Triton."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))

    def compile(text: str):
        file = tmp_path / "kernel.ttir"
        file.write_text(text)
        return triton.compile(str(file), target=GPUTarget("cuda", 90, 32))

    return compile


def fused_wrongly() -> bool:
    version = importlib.metadata.version("triton")
    return version.startswith(("3.8.", "3.9."))


def test_a_clean_kernel_compiles_as_without_the_hook(compiled, capfd) -> None:
    plain = compiled(SCALE).asm["ptx"]
    with triton_hook.install("validate,layouts,verify") as hook:
        assert compiled(SCALE).asm["ptx"] == plain
    text = capfd.readouterr().err
    assert "xttir validate: scale: verified" in text
    assert "xttir layouts: scale: verified" in text
    assert [str(r.verdict) for r in hook.reports[:2]] == ["verified"] * 2
    assert hook.unchecked == []
    count = len(hook.reports)
    compiled(SCALE.replace("@scale", "@after"))
    assert len(hook.reports) == count


@pytest.mark.skipif(not fused_wrongly(), reason="triton#11601 is in 3.8 and 3.9 only")
def test_the_pass_that_goes_wrong_is_named_and_the_compile_goes_on(
    compiled, capfd, tmp_path
) -> None:
    output = tmp_path / "found.jsonl"
    with triton_hook.install("validate", output=str(output)) as hook:
        assert compiled(FLATTENED).asm["ptx"]
    text = capfd.readouterr().err
    assert "pass tritongpu-fuse-nested-loops" in text
    assert "xttir validate: flat: fault" in text
    (report,) = hook.reports
    assert report.faults
    (line,) = output.read_text().splitlines()
    data = json.loads(line)
    assert (data["kernel"], data["mode"], data["verdict"]) == ("flat", "validate", "fault")


def test_a_file_that_cannot_be_written_is_named(compiled, capfd, tmp_path) -> None:
    with triton_hook.install("layouts", output=str(tmp_path / "no" / "found.jsonl")) as hook:
        assert compiled(SCALE).asm["ptx"]
    text = capfd.readouterr().err
    assert "xttir layouts: scale: verified" in text
    assert "found.jsonl' (XTTIR_HOOK_OUTPUT): No such file or directory" in text
    assert hook.unchecked == []


def test_nothing_that_goes_wrong_here_reaches_the_user(compiled, capfd, monkeypatch) -> None:
    def broken(seen, hook):
        raise ZeroDivisionError("of the checker's own")

    monkeypatch.setitem(triton_hook._LOOK, "validate", broken)
    with triton_hook.install("validate") as hook:
        assert compiled(SCALE.replace("@scale", "@unlucky")).asm["ptx"]
    assert hook.unchecked == ["ZeroDivisionError: of the checker's own"]
    assert "xttir: not checked: ZeroDivisionError" in capfd.readouterr().err


def test_a_hook_of_the_users_goes_on_being_called(compiled, monkeypatch) -> None:
    from triton import knobs

    calls: list[int] = []

    def mine(*arguments):
        calls.append(len(arguments))
        return ("mine", "mine") if not arguments else None

    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", mine)
    with triton_hook.install("layouts") as hook:
        key, digest = hook()
        assert key.endswith("mine")
        assert digest.startswith("xttir-hook-layouts")
        compiled(SCALE.replace("@scale", "@shared"))
    assert 5 in calls
    assert knobs.runtime.add_stages_inspection_hook is mine


def test_modes() -> None:
    assert triton_hook.modes_of("validate, layouts") == ("validate", "layouts")
    with pytest.raises(ValueError, match="'nonsense' is none of"):
        triton_hook.modes_of("nonsense")
    with pytest.raises(ValueError, match="no mode"):
        triton_hook.modes_of(",")


SCRIPT = """
import sys
import triton
from triton.backends.compiler import GPUTarget

kernel = triton.compile(sys.argv[1], target=GPUTarget("cuda", 90, 32))
print("compiled", len(kernel.asm["ptx"]) > 0, sys.argv[1:])
"""


@pytest.fixture
def script(tmp_path: Path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "kernel.ttir").write_text(SCALE)

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache"), **variables}
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


def test_a_script_is_run_with_the_hook(script) -> None:
    done = script("-m", "xttir.triton_hook", "layouts", "script.py", "kernel.ttir")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "compiled True ['kernel.ttir']\n"
    assert "xttir layouts: scale: verified" in done.stderr


def test_the_variable_alone_is_enough_where_the_start_file_is_installed(script, tmp_path) -> None:
    start = f"import site; site.addsitedir({str(ROOT / 'packaging')!r})"
    main = "import runpy, sys; sys.argv = ['script.py', 'kernel.ttir']; runpy.run_path('script.py')"
    done = script("-c", f"{start}; {main}", XTTIR_HOOK="layouts")
    assert done.returncode == 0, done.stderr
    assert "xttir layouts: scale: verified" in done.stderr
    done = script("-c", f"{start}; {main}")
    assert "xttir" not in done.stderr
    done = script("-c", f"{start}; {main}", XTTIR_HOOK="nonsense")
    assert done.stdout.startswith("compiled True")
    assert "the hook is not installed" in done.stderr


def test_wrong_words(script) -> None:
    assert script("-m", "xttir.triton_hook").returncode == 2
    done = script("-m", "xttir.triton_hook", "--help")
    assert done.returncode == 0
    assert "XTTIR_HOOK=validate" in done.stdout
    done = script("-m", "xttir.triton_hook", "script.py", XTTIR_HOOK="nonsense")
    assert done.returncode == 2
    assert "'nonsense' is none of" in done.stderr
    done = script("-m", "xttir.triton_hook", "validat", "script.py")
    assert done.returncode == 2
    assert "cannot read 'validat'" in done.stderr
    assert "Traceback" not in done.stderr
