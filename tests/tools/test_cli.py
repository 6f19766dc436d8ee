"""Whole commands on real kernels: exit codes, what goes where, and bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.clean_process import Command, Outcome, xttir
from xttir import __version__
from xttir.policy import CHECKS
from xttir.tools import json_report

KERNELS = """\
import torch, triton, triton.language as tl

@triton.jit
def double(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

@triton.jit
def unmasked(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 2)

def launch(kernel, n=100):
    kernel = globals()[kernel] if isinstance(kernel, str) else kernel
    x = torch.ones(n, device="cuda"); o = torch.empty(n, device="cuda")
    kernel[(triton.cdiv(n, 64),)](x, o, n, B=64)
    return o
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNELS)
    return tmp_path


def sanitize(folder: Path, text: str, *flags: str, **environment: str) -> Outcome:
    (folder / "script.py").write_text("from kernels import *\n" + text)
    return xttir("sanitize", *flags, "script.py", cwd=folder, environment=environment)


def test_a_clean_script(folder: Path):
    done = sanitize(folder, "print(launch(double).sum().item())\n")
    assert done.code == 0
    assert done.stdout == "200.0\n"
    assert "2 programs of 1 launch checked in" in done.stderr
    assert ": no fault.\n" in done.stderr
    assert done.stderr.endswith("Not checked: nothing.\n")


def test_a_fault_is_reported_at_its_line_and_the_script_goes_on(folder: Path):
    done = sanitize(folder, "launch(unmasked)\nprint('after')\nlaunch(double)\nlaunch(unmasked)\n")
    assert done.code == 1
    assert done.stdout == "after\n"
    assert done.stderr.count("error[") == 1
    assert "error[out-of-bounds]: store past the end of `o` (float32[100])\n" in done.stderr
    assert (
        " --> kernels.py:11:5 in unmasked, launch 1, grid (2, 1, 1), B=64, n=100\n" in done.stderr
    )
    assert "11 |     tl.store(o + i, tl.load(x + i, mask=i < n) * 2)\n" in done.stderr
    assert "seen in 2 launches: 1, 3\n" in done.stderr
    assert "6 programs of 3 launches" in done.stderr


def test_json_on_standard_output_is_alone_there(folder: Path):
    text = "import os\nprint('printed')\nos.write(1, b'written\\n')\nlaunch(unmasked)\n"
    done = sanitize(folder, text, "--format", "json")
    report = json.loads(done.stdout)
    jsonschema.validate(report, json_report.schema())
    assert report["faults"][0]["kind"] == "out-of-bounds"
    assert report["stats"]["launches"] == 1
    assert "printed" in done.stderr
    assert "written" in done.stderr
    assert done.code == report["exit_code"] == 1


def test_sarif_to_a_file(folder: Path):
    done = sanitize(folder, "launch(unmasked)\n", "--format=sarif", "-o", "r.sarif", "--quiet")
    (run,) = json.loads((folder / "r.sarif").read_text())["runs"]
    (result,) = run["results"]
    where = result["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"] == "kernels.py"
    assert where["region"]["startLine"] == 11
    assert done.code == 1


def test_quiet_says_nothing_when_nothing_was_found(folder: Path):
    done = sanitize(folder, "launch(double)\n", "--quiet")
    assert "programs" not in done.stderr
    assert done.code == 0
    assert "error[out-of-bounds]" in sanitize(folder, "launch(unmasked)\n", "-q").stderr


def test_checks_can_be_switched_off_and_that_is_said(folder: Path):
    done = sanitize(folder, "launch(unmasked)\n", "--checks=-bounds")
    assert done.code == 0
    assert "Not checked: bounds (switched off).\n" in done.stderr
    again = sanitize(folder, "launch(unmasked)\n", XTTIR_CHECKS="race,init")
    assert again.code == 0
    assert "Not checked: bounds, " in again.stderr


def test_the_script_gets_its_own_arguments(folder: Path):
    (folder / "args.py").write_text("import sys; print(sys.argv, __name__, __file__)")
    done = xttir("sanitize", "--cc", "80", "args.py", "--cc", "-x", cwd=folder)
    file = os.path.realpath(folder / "args.py")
    assert done.stdout == f"['args.py', '--cc', '-x'] __main__ {file}\n"
    module = xttir("sanitize", "-m", "args", "y", cwd=folder)
    assert module.stdout == f"[{file!r}, 'y'] __main__ {file}\n"


def test_the_device_is_the_one_asked_for(folder: Path):
    text = "print(torch.cuda.get_device_capability())\n"
    assert sanitize(folder, text, "--cc", "100").stdout == "(10, 0)\n"


def test_the_scripts_own_exception_is_shown_as_its_own(folder: Path):
    done = sanitize(folder, "launch(double)\nraise ValueError('mine')\n")
    assert done.code == 2
    assert "script error: the script raised an exception of its own\n" in done.stderr
    assert 'script.py", line 3, in <module>\n' in done.stderr
    assert "ValueError: mine\n" in done.stderr
    assert "xttir/tools" not in done.stderr
    faulty = sanitize(folder, "launch(unmasked)\nraise ValueError('mine')\n")
    assert faulty.code == 1
    assert "ValueError: mine\n" in faulty.stderr


def test_the_status_of_the_script_is_heeded(folder: Path):
    done = sanitize(folder, "import sys\nlaunch(double)\nsys.exit(1)\n", "--format", "json")
    (fault,) = json.loads(done.stdout)["faults"]
    assert fault["kind"] == "mismatch"
    assert fault["locations"][0]["line"] == 4
    assert done.code == 1
    assert sanitize(folder, "import sys\nsys.exit(7)\n").code == 2
    assert sanitize(folder, "import sys\nlaunch(double)\nsys.exit(0)\n").code == 0


def test_a_script_that_ends_the_process_loses_no_report(folder: Path):
    forked = "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)\n"
    done = sanitize(folder, forked + "launch(unmasked)\nos._exit(0)\n")
    assert done.code == 1
    assert "error[out-of-bounds]" in done.stderr
    waits = "import os, threading\nthreading.Thread(target=threading.Event().wait).start()\n"
    done = sanitize(folder, waits + "launch(double)\nos._exit(0)\n")
    assert done.code == 0
    assert "no fault" in done.stderr
    assert sanitize(folder, "import os\nlaunch(double)\nos._exit(7)\n").code == 2
    thread = "import os, threading\nt = threading.Thread(target=os._exit, args=(0,))\nt.start()\n"
    done = sanitize(folder, thread + "t.join()\nthreading.Event().wait()\n")
    assert done.code == 3
    assert "there is no report" in done.stderr


def test_a_kernel_that_does_not_compile_is_misuse_in_the_kernel(folder: Path):
    text = "@triton.jit\ndef broken(x):\n    y = nowhere\n\nbroken[(1,)](torch.zeros(1))\n"
    done = sanitize(folder, text, "--format", "json")
    (fault,) = json.loads(done.stdout)["faults"]
    assert fault["kind"] == "misuse"
    assert "does not compile" in fault["message"]
    assert "nowhere" in fault["message"]
    assert [place["line"] for place in fault["locations"]] == [4, 6]
    assert done.code == 1


def test_wrong_arguments_of_a_launch_are_the_users_error(folder: Path):
    done = sanitize(folder, "double[(1,)](torch.zeros(1, device='cuda'), B=64)\n")
    assert done.code == 2
    assert "TypeError" in done.stderr
    assert "xttir/tools" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sanitize"], "xttir: error: sanitize needs a script, '-m MODULE' or 'pytest'\n"),
        (["sanitize", "nowhere.py"], "error: cannot read 'nowhere.py': no such file"),
        (["sanitize", "."], "error: '.' is a directory, not a script\n"),
        (["sanitize", "binary.py"], "error: 'binary.py' is a binary file, not Python source\n"),
        (["sanitize", "wrong.py"], "error: SyntaxError: '(' was never closed\n --> wrong.py:2:5\n"),
        (["sanitize", "-m", "nowhere.at.all"], "error: no module named 'nowhere.at.all'\n"),
        (
            ["sanitize", "--cc", "75", "x.py"],
            "xttir: error: --cc: '75' is not one of 80, 90, 100\n",
        ),
        (["sanitize", "-o", "/no/such/f", "ok.py"], "xttir: error: cannot write '/no/such/f'"),
        (["sanitise", "x.py"], "unknown command 'sanitise'; did you mean 'sanitize'?\n"),
        (["checks", "x"], "xttir: error: checks takes no arguments\n"),
        (["prove"], "xttir: error: unknown command 'prove'\n"),
    ],
)
def test_bad_input_is_one_clear_message(tmp_path: Path, words: list[str], message: str):
    (tmp_path / "binary.py").write_bytes(b"\x7fELF\0")
    (tmp_path / "wrong.py").write_text("\nx = (")
    (tmp_path / "ok.py").write_text("print('ran')")
    done = xttir(*words, cwd=tmp_path)
    assert done.code == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_an_input_error_is_in_the_json_too(tmp_path: Path):
    done = xttir("sanitize", "--format", "json", "nowhere.py", cwd=tmp_path)
    report = json.loads(done.stdout)
    jsonschema.validate(report, json_report.schema())
    assert report["verdict"] == "error"
    assert "nowhere.py" in report["input_error"]["what"]


def test_ctrl_c_in_a_launch_names_it_and_what_may_be_half_written(folder: Path):
    (folder / "script.py").write_text(
        "from kernels import *\n"
        "@triton.jit\n"
        "def slow(x, o):\n"
        "    s = 0.0\n"
        "    for i in range(1000000):\n"
        "        s += tl.load(x)\n"
        "        tl.store(o, s)\n"
        "x = torch.zeros(1, device='cuda'); o = torch.zeros(3, device='cuda')\n"
        "print('now', flush=True)\n"
        "slow[(1,)](x, o)\n",
    )
    command = Command("xttir", ["sanitize", "script.py"], folder)
    command.interrupt_when("now")
    # It may be compiling at that moment: then no launch was running.
    done = command.wait(60)
    assert done.code == 130
    assert "interrupted by Ctrl-C" in done.stderr
    assert "Traceback" not in done.stderr
    if "in launch" in done.stderr:
        assert "in launch 1 of slow (" in done.stderr
        assert "half written, perhaps: `o` (float32[3])\n" in done.stderr


def test_children_of_the_script_are_checked(folder: Path):
    text = (
        "import multiprocessing, sys\n"
        "if __name__ == '__main__':\n"
        "    for how in ('fork', 'spawn'):\n"
        "        context = multiprocessing.get_context(how)\n"
        "        with context.Pool(1) as pool:\n"
        "            pool.map(launch, ['unmasked'])\n"
        "        child = context.Process(target=launch, args=('double',))\n"
        "        child.start()\n"
        "        child.join()\n"
    )
    done = sanitize(folder, text, "--format", "json")
    report = json.loads(done.stdout)
    assert report["stats"]["launches"] == 4
    assert [f["kind"] for f in report["faults"]] == ["out-of-bounds"]
    assert done.code == 1


def run_plain(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "xttir", *words],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_lists_and_versions():
    checks = run_plain("checks").stdout
    assert [line.split()[0] for line in checks.splitlines()] == list(CHECKS)
    assert run_plain("--version").stdout == f"xttir {__version__}\n"
    assert json.loads(run_plain("schema").stdout) == json_report.schema()
    assert run_plain().returncode == 2
    shown = run_plain("--help")
    assert shown.returncode == 0
    assert "sanitize" in shown.stdout
    assert "verify" in shown.stdout
    assert "--grid-order ORDER" in run_plain("sanitize", "--help").stdout


def test_commands_that_run_nothing_import_nothing_heavy():
    code = (
        "import sys\nfrom xttir.tools import cli, pytest_plugin, sanitize, output\n"
        "cli.main(['checks'])\n"
        "heavy = {'torch', 'triton', 'z3', 'numpy', 'xdsl', 'rich'} & set(sys.modules)\n"
        "sys.exit(repr(sorted(heavy)) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
