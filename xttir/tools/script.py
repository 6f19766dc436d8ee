"""Running a user's script or module as plain `python` would, and telling its ends apart.

A script can end by itself, by `sys.exit`, by Ctrl-C, by an exception of its own, or because a
launch met something xttir has no meaning for. The user's exceptions are shown with the user's
frames only; a failed assertion is a finding at its line.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import inspect
import os
import runpy
import site
import sys
import sysconfig
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import xttir
from xttir.diagnostics import Fault, InputError, Kind, Location, Unsupported, XttirError
from xttir.tools.report import Problem, Report, ScriptError

_PACKAGE = str(Path(xttir.__file__).resolve().parent) + os.sep
_OWN_FAULTS = tuple(os.path.join(_PACKAGE, d) for d in ("interp", "dialects", "session.py"))
"""Where an exception that is not ours to raise means a defect of xttir. The frontends raise what a
driver or torch would raise, so theirs belong to the user's program."""

_DRIVER = os.path.join(_PACKAGE, "frontends")

MAX_NOTE_LINES = 12


class NotRunnable(InputError):
    """There is nothing to run: no such module."""


class LeftAtOnce(BaseException):
    """The script has called `os._exit(status)`, which would lose the report."""

    def __init__(self, status: int):
        super().__init__(status)
        self.status = status


left_at_once = False
"""Whether a script has: then nothing of it is to be waited for at the end of the process."""


@contextlib.contextmanager
def _exit_heeded() -> Iterator[None]:
    """Inside, `os._exit` of the process and thread that runs the script raises `LeftAtOnce`. What
    the script forks ends as ever; another thread ends the process, and says what is lost."""
    process, thread, leave = os.getpid(), threading.get_ident(), os._exit

    def left(status: int) -> NoReturn:
        if os.getpid() != process:
            leave(status)
        if threading.get_ident() != thread:
            text = "xttir: a thread of the script ended the process (os._exit): there is no report"
            os.write(2, f"{text}\n".encode())
            leave(status or 3)
        raise LeftAtOnce(status)

    os._exit = left  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        os._exit = leave


def read_script(path: str) -> types.CodeType:
    """The compiled script. Raises `InputError`, one line long, for what is not a script."""
    file = Path(path)
    try:
        data = file.read_bytes()
    except IsADirectoryError:
        raise InputError(f"'{path}' is a directory, not a script") from None
    except OSError as error:
        raise InputError(f"cannot read '{path}': {(error.strerror or 'error').lower()}") from None
    if b"\0" in data:
        raise InputError(f"'{path}' is a binary file, not Python source")
    full = os.path.abspath(path)
    try:
        return compile(data, full, "exec", dont_inherit=True)
    except SyntaxError as error:
        where = Location(full, error.lineno or 0, error.offset or 0)
        raise InputError(f"{type(error).__name__}: {error.msg}", where) from None
    except ValueError as error:
        raise InputError(f"'{path}' is not Python source: {error}") from None


def script_runner(path: str, args: Sequence[str]) -> Callable[[], None]:
    """Check `path` now; calling the result runs it as `python path args...` would."""
    code = read_script(path)

    def start() -> None:
        full = os.path.abspath(path)
        main = types.ModuleType("__main__")
        main.__dict__.update(__file__=full, __builtins__=builtins, __cached__=None)
        sys.argv[:] = [path, *args]
        sys.path[0] = os.path.dirname(os.path.realpath(path))
        sys.modules["__main__"] = main
        exec(code, main.__dict__)

    return start


def module_runner(name: str, args: Sequence[str]) -> Callable[[], None]:
    """The same for `python -m name args...`."""

    def start() -> None:
        sys.argv[:] = [name, *args]
        sys.path[0] = os.getcwd()
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            spec = None
        if spec is None:
            raise NotRunnable(f"no module named '{name}'")
        if spec.submodule_search_locations is not None and (
            importlib.util.find_spec(f"{name}.__main__") is None
        ):
            raise NotRunnable(f"'{name}' is a package without a __main__ module")
        runpy.run_module(name, run_name="__main__", alter_sys=True)

    return start


def run(start: Callable[[], None], report: Report) -> None:
    """Call `start` and write into `report` how it ended. Raises nothing but `NotRunnable`."""
    previous = threading.excepthook
    threading.excepthook = lambda args: _thread_ended(args, report, previous)
    global left_at_once
    try:
        with _exit_heeded():
            start()
            _join_threads()
    except NotRunnable:
        raise
    except LeftAtOnce as error:
        left_at_once = True
        report.script_exit = error.status
        report.exit_place = user_location(error)
    except SystemExit as error:
        report.script_exit = _exit_status(error)
        report.exit_place = user_location(error)
        _join_threads()
    except KeyboardInterrupt:
        report.interrupted = "by Ctrl-C"
    except BaseException as error:
        classify(error, report)
    finally:
        threading.excepthook = previous


def classify(error: BaseException, report: Report) -> None:
    """Record an exception that ended the script (or a test) as what it is."""
    for link in _chain(error):
        if isinstance(link, Unsupported):
            problem = Problem(link.what, link.location, link.hint)
            if problem not in report.unsupported:
                report.unsupported.append(problem)
            return
    if isinstance(error, XttirError):
        report.input_error = Problem(
            getattr(error, "what", str(error)),
            getattr(error, "location", None),
            getattr(error, "hint", ""),
        )
        return
    frames = traceback.extract_tb(error.__traceback__)
    raised_in = os.path.realpath(frames[-1].filename) if frames else ""
    if raised_in.startswith(_OWN_FAULTS):
        report.internal.append(_defect(error, frames))
        if os.environ.get("XTTIR_DEBUG"):
            traceback.print_exception(error)
        return
    fault = fault_of(error)
    if fault is None:
        report.script_error = ScriptError(
            type(error).__qualname__,
            str(error),
            user_traceback(error),
            user_location(error),
            refused=raised_in.startswith(_DRIVER),
        )
    else:
        report.faults.append(fault)


def fault_of(error: BaseException) -> Fault | None:
    """The finding that an uncaught exception stands for, if it stands for one."""
    name = type(error).__name__
    places = tuple(_places(error))
    first, *rest = (str(error) or "").strip().splitlines() or [""]
    notes = tuple(line for line in rest if line.strip())[:MAX_NOTE_LINES]
    if isinstance(error, AssertionError):
        message = f"assertion failed: {first}" if first else "assertion failed"
        return Fault(Kind.ASSERT, message, locations=places, notes=notes)
    if name == "OutOfResources" and type(error).__module__.startswith("triton"):
        return Fault(Kind.RESOURCE, first, locations=places, notes=notes)
    if name == "CompilationError" and type(error).__module__.startswith("triton"):
        return _compilation(error, places)
    return None


def _compilation(error: BaseException, places: tuple[Location, ...]) -> Fault:
    """Triton's error for a kernel: located in the kernel, then in the callers, then at the launch.

    An error in a helper is the cause of one at its call, and so on outwards.
    """
    links: list[BaseException] = [error]
    while (cause := links[-1].__cause__) is not None and type(cause) is type(error):
        links.append(cause)
    innermost = links[-1]
    functions = _jit_functions(error)
    kernel = [p for link in reversed(links) if (p := _compiled_place(link, functions))]
    message = getattr(innermost, "error_message", None) or innermost.__cause__ or innermost
    first, *rest = str(message).strip().splitlines() or [""]
    return Fault(
        Kind.MISUSE,
        f"the kernel does not compile: {first}",
        locations=tuple(
            replace(place, role="called from" if depth else "")
            for depth, place in enumerate((*kernel, *places))
        ),
        notes=tuple(rest[:MAX_NOTE_LINES]),
    )


def _jit_functions(error: BaseException) -> dict[str, Any]:
    """Triton functions by their text: the one being launched, and those in reach of it.

    Triton cuts its compiler's frames out of the traceback; the launch's own frame is left.
    """
    found: dict[str, Any] = {}
    link = error.__traceback__
    while link is not None:
        kernel = link.tb_frame.f_locals.get("self")
        function: Any = getattr(kernel, "fn", None)
        if isinstance(getattr(kernel, "src", None), str) and hasattr(function, "__globals__"):
            for other in (*vars(function).values(), *function.__globals__.values(), kernel):
                text = getattr(other, "src", None)
                if isinstance(text, str) and hasattr(other, "fn"):
                    found[text] = other
        link = link.tb_next
    return found


def _compiled_place(error: BaseException, functions: Mapping[str, Any]) -> Location | None:
    """Where in a kernel Triton's compiler was. The error knows the text (dedented, from its `def`
    on) and the node in it.
    """
    node: Any = getattr(error, "node", None)
    function = functions.get(getattr(error, "src", ""))
    if function is None or not hasattr(node, "lineno"):
        return None
    lines, start = inspect.getsourcelines(function.fn)
    head = next((n for n, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    indent = len(lines[head]) - len(lines[head].lstrip())
    file = inspect.getsourcefile(function.fn) or ""
    name = getattr(function, "__name__", "")
    return Location(file, start + head + node.lineno - 1, indent + node.col_offset + 1, "", name)


def user_traceback(error: BaseException) -> str:
    """The traceback as Python prints it, without frames of xttir and of the module runner."""
    shown = traceback.TracebackException.from_exception(error)
    _strip(shown, set())
    return "".join(shown.format())


def _strip(shown: traceback.TracebackException, seen: set[int]) -> None:
    if id(shown) in seen:
        return
    seen.add(id(shown))
    kept = [f for f in shown.stack if not _is_ours(f.filename)]
    shown.stack = traceback.StackSummary.from_list(kept)
    for link in (shown.__cause__, shown.__context__, *(shown.exceptions or ())):
        if link is not None:
            _strip(link, seen)


def _is_ours(filename: str) -> bool:
    return filename == "<frozen runpy>" or os.path.realpath(filename).startswith(_PACKAGE)


def user_location(error: BaseException) -> Location | None:
    """Where in the user's files it was raised."""
    return next(iter(_places(error)), None)


_LIBRARIES = tuple(
    {
        os.path.realpath(path) + os.sep
        for path in (*site.getsitepackages(), sysconfig.get_path("stdlib"))
        if path
    }
)


def _places(error: BaseException) -> Iterator[Location]:
    """The user's frames, innermost first: the place of the exception, then the calls to it."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_ours(f.filename)]
    users = [f for f in frames if not os.path.realpath(f.filename).startswith(_LIBRARIES)]
    for depth, frame in enumerate(reversed(users or frames[-1:])):
        function = "" if frame.name == "<module>" else frame.name
        column = 0 if frame.colno is None else frame.colno + 1
        yield Location(
            os.path.abspath(frame.filename),
            frame.lineno or 0,
            column,
            "called from" if depth else "",
            function,
        )


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _defect(error: BaseException, frames: traceback.StackSummary) -> Problem:
    last = frames[-1]
    inside = os.path.relpath(os.path.realpath(last.filename), _PACKAGE)
    where = user_location(error)
    return Problem(
        f"xttir failed with {type(error).__name__}: {error} ({inside}:{last.lineno})",
        where,
        "this is a defect of xttir, not of the program; XTTIR_DEBUG=1 shows the whole traceback",
    )


def _exit_status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    print(error.code, file=sys.stderr)
    return 1


def _join_threads() -> None:
    """Python waits for non-daemon threads before it exits; their launches belong to the run."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _thread_ended(
    args: threading.ExceptHookArgs, report: Report, previous: Callable[..., object]
) -> None:
    """Exceptions end a thread, not the script; what is not the user's is recorded all the same."""
    error = args.exc_value
    ours = error is not None and any(isinstance(x, XttirError) for x in _chain(error))
    if error is not None and ours:
        classify(error, report)
    else:
        previous(args)
