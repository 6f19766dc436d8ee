"""`xttir-opt`: xDSL's flags, MLIR's spellings, one located line for bad input."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from xttir.tools.xttir_opt import main

GOOD = """\
tt.func @f(%x: tensor<4xf32>) -> tensor<4xi1> {
  %0 = arith.constant dense<0xFF800000> : tensor<4xf32>
  %1 = arith.constant dense<0xFF800000> : tensor<4xf32>
  %2 = arith.cmpf ogt, %x, %1 : tensor<4xf32>
  tt.return %2 : tensor<4xi1>
}
"""
BAD = """\
tt.func @f() {
  %0 = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<4xi32>
  tt.return
}
"""


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.ttir"
    path.write_text(GOOD)
    return str(path)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "bad.mlir"
    path.write_text(BAD)
    return str(path)


def test_prints_what_it_read(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([good]) == 0
    out = capsys.readouterr().out
    assert "dense<0xFF800000> : tensor<4xf32>" in out
    assert "arith.cmpf ogt, %x, %1 : tensor<4xf32>" in out


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--print-op-generic"], '"arith.cmpf"(%x, %1) <{fastmath'),
        (["--mlir-print-op-generic"], '"arith.cmpf"(%x, %1) <{fastmath'),
        (["--print-debuginfo"], 'good.ttir":4:3)'),
        (["--mlir-print-debuginfo", "--mlir-print-local-scope"], 'good.ttir":4:3)'),
        (["-t", "ttir"], "dense<0xFF800000>"),
        (["-f", "ttgir"], "dense<0xFF800000>"),
        (["--syntax-highlight"], "\x1b["),
    ],
)
def test_flags(good: str, flags: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([good, *flags]) == 0
    assert text in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert "xttir-opt 0." in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags",
    [
        ["-p", "cse"],
        ["--cse"],
        ["--pass-pipeline=builtin.module(cse)"],
        ["--pass-pipeline", "builtin.module( cse, dce )"],
        ["--pass-pipeline=cse"],
        ["-p", "cse", "--dce"],
    ],
)
def test_passes(good: str, flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([good, *flags]) == 0
    assert capsys.readouterr().out.count("arith.constant") == 1


def test_ir_around_passes(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--cse", "--dce", "--mlir-print-ir-after-all", "--mlir-print-ir-before-all"]
    assert main([good, *flags]) == 0
    err = capsys.readouterr().err
    titles = [line for line in err.splitlines() if line.startswith("// -----//")]
    assert [title.split("(")[1].split(")")[0] for title in titles] == ["cse", "cse", "dce", "dce"]
    assert err.count("dense<0xFF800000>") == 2 + 1 + 1 + 1
    assert main([good, "-p", "cse,dce", "--print-between-passes", "--time-passes"]) == 0
    assert "IR after cse:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["-p", "fly"], "Unrecognized passes: ['fly']"),
        (["--pass-pipeline=builtin.module(tt.func(cse))"], "cannot be nested"),
        (["-p", "cse{"], "Error parsing pass pipeline"),
    ],
)
def test_wrong_pipelines(
    good: str, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([good, *flags]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_wrong_flags(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([good, "--fly-me-to-the-moon"])
    assert exit_.value.code == 2
    assert "--fly-me-to-the-moon" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("junk.mlir", bytes(range(256)), ":2:118: error: not a text file (invalid UTF-8)"),
        ("words.ttir", b"what is this\n", ":1:1: error: Operation what is not registered"),
        ("cut.ttir", GOOD[:-20].encode(), ":5:"),
        ("kernel.py", b"import triton\n", "unknown kind of file '.py'"),
    ],
)
def test_bad_files(
    tmp_path: Path,
    name: str,
    content: bytes,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert main([str(path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(str(path))
    assert message in err
    assert err.count("\n") == 1


def test_an_empty_file_is_an_empty_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "empty.ttgir"
    path.write_text("")
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == "builtin.module {\n}\n"


def test_missing_files(tmp_path: Path, good: str, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "missing.ttir")
    assert main([missing]) == 2
    assert capsys.readouterr().err == f"{missing}: error: cannot read: No such file or directory\n"
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty")]) == 2
    assert "no modules (.mlir, .ttir, .ttgir) in the directory" in capsys.readouterr().err
    assert main([good, "-o", str(tmp_path / "no/such/folder")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_output_file(tmp_path: Path, good: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.mlir"
    assert main([good, "-o", str(target)]) == 0
    assert "tt.func" in target.read_text()
    assert capsys.readouterr().out == ""
    assert main([str(target)]) == 0


@pytest.mark.parametrize("flags", [[], ["-"]])
def test_standard_input(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    assert main(flags) == 2
    assert capsys.readouterr().err.startswith("<stdin>:2:3: error: 'tt.make_range' op")


def test_verification(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([bad]) == 2
    assert ":2:3: error: 'tt.make_range' op number of elements" in capsys.readouterr().err
    assert main([bad, "--disable-verify"]) == 0
    # xDSL's meaning of the flag, where no comment says what to expect.
    assert main([bad, "--verify-diagnostics"]) == 0
    assert "number of elements" in capsys.readouterr().out


def test_unregistered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "unknown.mlir"
    path.write_text('"foo.bar"() : () -> ()\n')
    assert main([str(path)]) == 2
    assert "foo.bar is not registered" in capsys.readouterr().err
    assert main([str(path), "--allow-unregistered-dialect"]) == 0
    assert '"foo.bar"()' in capsys.readouterr().out


def test_split_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "parts.ttir"
    path.write_text(GOOD + "// -----\n" + BAD + "// -----\n" + GOOD)
    assert main([str(path), "--split-input-file"]) == 2
    captured = capsys.readouterr()
    assert f"{path}:9:3: error: 'tt.make_range'" in captured.err
    assert captured.out.count("tt.func") == 2
    assert captured.out.count("// -----\n") == 2


@pytest.mark.parametrize(
    ("comment", "code", "complaint"),
    [
        ("  // expected-error@+1 {{must match the size of the range}}", 0, ""),
        ("  // expected-error@below {{must match the size of the range}}", 0, ""),
        ("  // expected-error@unknown {{number of elements}}", 0, ""),
        ("  // expected-error-re@+1 {{tensor, {{[0-9]}}, must}}", 0, ""),
        ("  // expected-error@+2 {{must match the size of the range}}", 1, "not produced"),
        ("  // expected-error@+1 {{something else}}", 1, "(unexpected)"),
        ("  // expected-warning@+1 {{must match the size of the range}}", 1, "not produced"),
    ],
)
def test_expected_errors(
    tmp_path: Path,
    comment: str,
    code: int,
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, rest = BAD.split("\n", 1)
    path = tmp_path / "expected.mlir"
    path.write_text(f"{first}\n{comment}\n{rest}")
    assert main([str(path), "--verify-diagnostics"]) == code
    assert complaint in capsys.readouterr().err


def test_an_error_that_does_not_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "expected.mlir"
    path.write_text("// expected-error@+1 {{boom}}\n" + GOOD)
    assert main([str(path), "--verify-diagnostics"]) == 1
    assert f'{path}:1: error: expected error "boom" was not produced' in capsys.readouterr().err


def test_plain_xdsl_opt_knows_the_dialects(good: str) -> None:
    """Through the `xdsl.universe` entry point, by the suffix of the file."""
    command = [sys.executable, "-m", "xdsl.tools.xdsl_opt", "-t", "ttir", good]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "dense<0xFF800000> : tensor<4xf32>" in done.stdout


def test_the_command_is_installed(bad: str) -> None:
    command = [sys.executable, "-m", "xttir.tools.xttir_opt", bad]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_one_dash_will_do(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-canonicalize", "-mlir-print-op-generic", "-split-input-file", good]) == 0
    assert '"arith.cmpf"' in capsys.readouterr().out


def test_markers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.ttir"
    path.write_text(f"{GOOD}// =====\n{GOOD}")
    assert main(["--split-input-file=// =====", str(path)]) == 0
    assert capsys.readouterr().out.count("// =====\n") == 1


def test_ir_around_chosen_passes(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-p", "canonicalize,cse", "--mlir-print-ir-after=cse", good]) == 0
    err = capsys.readouterr().err
    assert "IR Dump After CommonSubexpressionElimination (cse)" in err
    assert "(canonicalize)" not in err
    assert main(["-p", "canonicalize,cse", "--mlir-print-ir-before=canonicalize", good]) == 0
    assert "IR Dump Before CanonicalizePass (canonicalize)" in capsys.readouterr().err
    assert main(["-p", "canonicalize", "--mlir-print-ir-after=canonicalise", good]) == 2
    assert "no pass 'canonicalise'" in capsys.readouterr().err


def test_ir_only_after_changes(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["-p", "cse,cse,cse", "--mlir-print-ir-after-all", "--mlir-print-ir-after-change"]
    assert main([*flags, good]) == 0
    assert capsys.readouterr().err.count("IR Dump After") == 1


def test_lists_and_pipelines(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show-dialects"]) == 0
    assert {"tt", "ttg", "arith"} <= set(capsys.readouterr().out.split())
    assert main(["--list-passes"]) == 0
    assert {"check-layouts", "sanitize", "canonicalize"} <= set(capsys.readouterr().out.split())
    assert main(["--dump-pass-pipeline", "-p", "cse,canonicalize", good]) == 0
    assert capsys.readouterr().err == "builtin.module(cse,canonicalize)\n"


def test_round_trips_are_verified(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--verify-roundtrip", good]) == 0
    assert main(["--verify-roundtrip", "--mlir-print-op-generic", good]) == 0
    capsys.readouterr()


ACCESS = """tt.func public @k(%x: !tt.ptr<f32>, %n: i32) {
  %p = tt.addptr %x, %n : !tt.ptr<f32>, i32
  %v = tt.load %x : !tt.ptr<f32>
  tt.store %p, %v : !tt.ptr<f32>
  tt.return
}
"""


def test_sanitize_is_a_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.ttir"
    path.write_text(ACCESS)
    assert main(["--sanitize", str(path)]) == 0
    assert "tt.store" in capsys.readouterr().out
    arguments = '--sanitize=arguments="n=2;x=zeros:[2]"'
    assert main([arguments, str(path)]) == 1
    out = capsys.readouterr()
    assert out.out == ""
    assert "error[out-of-bounds]: store past the end of `x`" in out.err
    assert main(["--sanitize=arguments=n", str(path)]) == 2


@pytest.mark.parametrize(
    ("comment", "code"),
    [
        ("// expected-error@+2 {{store past the end of `x`}}", 0),
        ("// expected-error @below {{store past the end}}", 1),
        ("// expected-error@+2 {{store before the start}}", 1),
        ("// expected-error@+2 {{store past}} ", 0),
    ],
)
def test_faults_are_expected_like_errors(
    comment: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.ttir"
    path.write_text(ACCESS.replace("  %v =", f"  {comment}\n  %v ="))
    arguments = '--sanitize=arguments="n=2;x=zeros:[2]"'
    assert main(["--verify-diagnostics", arguments, str(path)]) == code
    capsys.readouterr()


DUMP = f"""compiler output
// -----// IR Dump Before Inliner: inline ('builtin.module' operation) //----- //
module {{
{ACCESS}}}


// -----// IR Dump Before CSE: cse ('builtin.module' operation) //----- //
module {{
{ACCESS.replace("@k", "@second")}}}


// -----// IR Dump Before Something ('builtin.module' operation) //----- //
module {{
  llvm.func @not_ours() {{
    llvm.return
  }}
}}
"""


def test_a_dump_is_read_module_by_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(DUMP)
    assert main(["-f", "ttir", str(path)]) == 0
    out = capsys.readouterr().out
    first, second = out.split("// -----\n")
    assert first.startswith("// IR Dump Before Inliner: inline ('builtin.module' operation)\n")
    assert "@second" in second
    assert "not_ours" not in out
    mlir = tmp_path / "dump.mlir"
    mlir.write_text(DUMP.replace("tt.load %x", "tt.lode %x", 1))
    assert main([str(mlir)]) == 2
    out = capsys.readouterr()
    assert f"{mlir}:6:" in out.err
    assert "@second" in out.out


def test_a_tree_is_read_file_by_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, suffix in (("A", "ttgir"), ("A", "ttir"), ("B", "ttir")):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / f"k.{suffix}").write_text(ACCESS)
        (tmp_path / name / "k.json").write_text("{}")
    assert main([str(tmp_path), '--sanitize=arguments="n=2;x=zeros:[2]"']) == 1
    out = capsys.readouterr()
    titles = [line for line in out.out.splitlines() if line.startswith("// ") and "k." in line]
    assert titles == ["// A/k.ttir", "// A/k.ttgir", "// B/k.ttir"]
    assert out.err.count("error[out-of-bounds]") == 3
