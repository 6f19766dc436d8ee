"""How scripts run and end, in this process; `test_cli.py` runs whole commands."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from xttir.diagnostics import InputError, Kind, Location
from xttir.tools import script
from xttir.tools.report import Report


@pytest.fixture(autouse=True)
def _main_is_put_back() -> Iterator[None]:
    argv, path, main = list(sys.argv), list(sys.path), sys.modules["__main__"]
    yield
    sys.argv[:], sys.path[:] = argv, path
    sys.modules["__main__"] = main


def run(tmp_path: Path, text: str, *args: str) -> Report:
    file = tmp_path / "script.py"
    file.write_text(text)
    report = Report()
    script.run(script.script_runner(str(file), args), report)
    return report


def test_a_script_sees_what_it_would_see_under_python(tmp_path: Path):
    (tmp_path / "neighbour.py").write_text("value = 42")
    report = run(
        tmp_path,
        "import sys, neighbour\n"
        "assert __name__ == '__main__' and __spec__ is None\n"
        f"assert __file__ == {str(tmp_path / 'script.py')!r}, __file__\n"
        f"assert sys.argv == [{str(tmp_path / 'script.py')!r}, '--cc', 'x'], sys.argv\n"
        f"assert sys.path[0] == {str(tmp_path)!r}, sys.path\n"
        "assert sys.modules['__main__'].__dict__ is globals()\n"
        "assert neighbour.value == 42\n"
        "import pickle\n"
        "class A: pass\n"
        "assert pickle.loads(pickle.dumps(A)) is A\n",
        "--cc",
        "x",
    )
    assert report.faults == []
    assert report.exit_code == 0


def test_a_module_runs_as_with_dash_m(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "some_pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys\nsys.exit(len(sys.argv))")
    monkeypatch.chdir(tmp_path)
    report = Report()
    script.run(script.module_runner("some_pkg", ["a", "b"]), report)
    assert report.script_exit == 3


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.py", None, "cannot read '.*a.py': no such file or directory"),
        ("a.py", b"\x7fELF\0\0", "'.*a.py' is a binary file"),
        ("a.py", b"x = (", r"a.py:1:5: error: SyntaxError: '\(' was never closed"),
        ("a.py", b"# coding: nope\n", "SyntaxError: unknown encoding: nope|encoding problem"),
        ("a.py", b"x = '\xff'\n", "SyntaxError: .*utf-8"),
    ],
)
def test_what_is_not_a_script_is_refused_in_one_line(
    tmp_path: Path, name: str, data: bytes | None, message: str
):
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError, match=message) as error:
        script.script_runner(str(path), [])
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="is a directory"):
        script.script_runner(str(tmp_path), [])


def test_modules_that_do_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("nowhere_at_all", "nowhere_at_all.sub"):
        with pytest.raises(InputError, match=f"no module named '{name}'"):
            script.run(script.module_runner(name, []), Report())


def test_a_failed_assertion_is_a_fault_at_its_line(tmp_path: Path):
    report = run(tmp_path, "def f():\n    assert 1 == 2, 'user\\nmore'\nf()\n")
    (fault,) = report.faults
    assert fault.kind is Kind.ASSERT
    assert fault.message == "assertion failed: user"
    assert fault.notes == ("more",)
    file = str(tmp_path / "script.py")
    assert [(x.file, x.line, x.function) for x in fault.locations] == [
        (file, 2, "f"),
        (file, 3, ""),
    ]
    assert report.exit_code == 1


def test_assertions_inside_libraries_are_placed_at_the_users_call(tmp_path: Path):
    report = run(tmp_path, "import numpy as np\n\nnp.testing.assert_allclose([1.0], [2.0])\n")
    (fault,) = report.faults
    assert fault.locations[0].line == 3
    assert any("Mismatched elements" in note for note in fault.notes)


def test_other_exceptions_are_shown_as_the_users(tmp_path: Path):
    report = run(tmp_path, "def f():\n    return {}['key']\n\nf()\n")
    error = report.script_error
    assert error is not None
    assert (error.type, error.message) == ("KeyError", "'key'")
    assert error.traceback.startswith("Traceback (most recent call last):\n")
    assert error.traceback.count("script.py") == 2
    assert "xttir" not in error.traceback.replace(str(tmp_path), "")
    assert error.location == Location(str(tmp_path / "script.py"), 2, 12, "", "f")
    assert report.exit_code == 2


def test_causes_are_shown_without_our_frames_too(tmp_path: Path):
    report = run(
        tmp_path,
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('bad') from e\n",
    )
    assert report.script_error is not None
    shown = report.script_error.traceback
    assert "direct cause" in shown
    assert "tools/script.py" not in shown


@pytest.mark.parametrize(
    ("call", "status"), [("", 0), ("0", 0), ("7", 7), ("True", 1), ("'words'", 1), ("None", 0)]
)
def test_exit_statuses_are_the_scripts_own(
    tmp_path: Path, call: str, status: int, capsys: pytest.CaptureFixture[str]
):
    report = run(tmp_path, f"import sys\nsys.exit({call})\n")
    assert report.script_exit == status
    assert report.exit_code == (2 if status else 0)
    assert capsys.readouterr().err == ("words\n" if "words" in call else "")


def test_unsupported_is_neither_fault_nor_the_users(tmp_path: Path):
    raising = (
        "from xttir.diagnostics import Unsupported, Location\n"
        "try:\n    raise Unsupported('op x', Location('k.py', 3))\n"
        "except Exception as e:\n    raise RuntimeError('launch failed')\n"
    )
    report = run(tmp_path, raising)
    assert [p.what for p in report.unsupported] == ["op x"]
    assert report.script_error is None
    assert report.exit_code == 3


def test_an_input_error_of_a_launch_does_not_end_the_report(tmp_path: Path):
    raising = (
        "from xttir.diagnostics import InputError\nraise InputError('an argument does not fit')\n"
    )
    report = run(tmp_path, raising)
    assert report.input_error is not None
    assert report.input_error.what == "an argument does not fit"
    assert report.exit_code == 2


def test_unsupported_in_a_thread_is_recorded(tmp_path: Path):
    report = run(
        tmp_path,
        "import threading\nfrom xttir.diagnostics import Unsupported\n"
        "def f(): raise Unsupported('op y')\n"
        "threading.Thread(target=f).start()\n",
    )
    assert [p.what for p in report.unsupported] == ["op y"]


def test_threads_that_python_would_wait_for_are_waited_for(tmp_path: Path):
    run(
        tmp_path,
        "import threading, time, pathlib\n"
        "def f():\n    time.sleep(0.3)\n"
        "    pathlib.Path(__file__).with_suffix('.done').write_text('')\n"
        "threading.Thread(target=f).start()\n",
    )
    assert (tmp_path / "script.done").exists()


def test_ctrl_c_is_an_interruption(tmp_path: Path):
    report = run(tmp_path, "raise KeyboardInterrupt\n")
    assert report.interrupted
    assert report.exit_code == 130


def test_a_defect_of_ours_is_not_blamed_on_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    code = compile("def op():\n    return [][1]\n", script._PACKAGE + "interp/x.py", "exec")
    module = types.ModuleType("broken_op")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, "broken_op", module)
    report = run(tmp_path, "import broken_op\nbroken_op.op()\n")
    assert capsys.readouterr().err == ""
    (problem,) = report.internal
    assert "IndexError" in problem.what
    assert "interp/x.py:2" in problem.what
    assert problem.location is not None
    assert problem.location.line == 2
    assert report.script_error is None
    assert report.exit_code == 3
    monkeypatch.setenv("XTTIR_DEBUG", "1")
    run(tmp_path, "import broken_op\nbroken_op.op()\n")
    assert "Traceback" in capsys.readouterr().err


def test_without_triton_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from xttir.policy import RunPolicy
    from xttir.tools import sanitize

    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "triton" else find_spec(name)
    )
    (tmp_path / "a.py").write_text("print('ran')")
    report = sanitize.run_script(str(tmp_path / "a.py"), [], RunPolicy())
    assert report.exit_code == 2
    assert report.input_error is not None
    assert "needs triton" in report.input_error.what
    assert "pip install" in report.input_error.hint
