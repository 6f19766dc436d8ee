"""Apply a textual pass pipeline to a module, and keep the module before and after every pass.

`tritongpu-fuse-nested-loops,canonicalize`, `builtin.module(cse,canonicalize{top-down=false})`: what
`triton-opt` takes, run by the installed Triton. The passes run in a child process that stays for
the next call; one that crashes or does not end is told as such.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import re
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from xttir.diagnostics import InputError, Location, XttirError
from xttir.refine.stages import Stage

INSTALL = "pip install 'xttir[triton]'"

TIMEOUT = 60.0
"""Seconds that a pipeline may take."""


class PassFailed(XttirError):
    """A pass signalled failure, crashed, or did not end.

    `name`: the pass. `how`: "failed", "crashed" or "timed out". `stages`: the module as it was
    given and after every pass before it. `log`: what the compiler wrote to standard error.
    `pipeline`: the pass with its options, where that is known.
    """

    exit_code = 1

    def __init__(
        self, name: str, how: str, why: str, log: str, stages: list[Stage], pipeline: str = ""
    ):
        super().__init__(f"pass {name} {how}" + (f": {why}" if why else ""))
        self.pipeline = pipeline
        self.name, self.how, self.why, self.log, self.stages = name, how, why, log, stages


def split_pipeline(text: str) -> list[str]:
    """The passes of a textual pipeline, outermost level, options kept. Raises `InputError`."""
    text = text.strip()
    whole = re.fullmatch(r"(?:builtin\.module|any)\((.*)\)", text, re.DOTALL)
    if whole and _balanced(whole[1]):
        return split_pipeline(whole[1])
    parts: list[str] = []
    depth, start = 0, 0
    for n, c in enumerate(text):
        depth += (c in "({") - (c in ")}")
        if depth < 0:
            raise InputError(f"unbalanced '{c}' in the pass pipeline '{text}'")
        if c == "," and depth == 0:
            parts.append(text[start:n])
            start = n + 1
    if depth:
        raise InputError(f"unbalanced brackets in the pass pipeline '{text}'")
    parts = [p.strip().lstrip("-") for p in (*parts, text[start:]) if p.strip()]
    if not parts:
        raise InputError("the pass pipeline is empty")
    return parts


def _balanced(text: str) -> bool:
    depth = 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if depth < 0:
            return False
    return depth == 0


def escaped(path: str) -> str:
    """A path as it stands in a string of MLIR's."""
    return path.replace("\\", "\\\\").replace('"', '\\"')


def pass_name(pipeline: str) -> str:
    """The name of the pass in `any(name{options})`."""
    whole = re.fullmatch(r"(?:builtin\.module|any)\((.*)\)", pipeline.strip(), re.DOTALL)
    return re.split(r"[{ ]", whole[1] if whole else pipeline, maxsplit=1)[0]


@dataclass
class Applied:
    """What a pipeline made: the module as Triton read it, then one stage per pass. `dump`: MLIR's
    own dump, when nested pipelines were asked for."""

    stages: list[Stage] = field(default_factory=list)
    dump: str = ""
    log: str = ""


class PassRunner:
    """A child process that runs passes. Starts at the first call, again after a hang."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def apply(
        self,
        text: str,
        pipeline: str,
        file: str = "",
        *,
        nested: bool = False,
        timeout: float = TIMEOUT,
    ) -> Applied:
        """Run `pipeline` on the module `text`; `file` is its name in locations.

        Raises `InputError` when Triton rejects the module or the pipeline, `PassFailed` when a
        pass fails.
        """
        try:
            return self._apply(text, pipeline, file, nested, timeout)
        except KeyboardInterrupt:
            # The child has not answered, and would answer the next question with this.
            self.close()
            raise

    def _apply(self, text: str, pipeline: str, file: str, nested: bool, timeout: float) -> Applied:
        passes = split_pipeline(pipeline)
        request = {"text": text, "file": escaped(file), "passes": passes, "nested": nested}
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            self.close()
            raise _no_passes() from None
        applied = Applied()
        names = [pass_name(p) for p in passes]
        end = time.monotonic() + timeout
        while True:
            answer = self._line(end)
            if answer is None:
                self.close()
                name = names[max(0, len(applied.stages) - 1)]
                raise PassFailed(name, "timed out", f"after {timeout:g} s", "", applied.stages)
            if "text" in answer:
                applied.stages.append(_stage(answer))
            elif "dump" in answer:
                applied.dump = answer["dump"]
            else:
                applied.log = answer.get("stderr", "")
                if "done" in answer:
                    return applied
                _raise(answer, applied, names, file)

    def close(self) -> None:
        """End the child process."""
        process, self._process = self._process, None
        self._buffer = b""
        if process is not None:
            os.killpg(process.pid, 9) if process.poll() is None else None
            process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._buffer = b""
            self._process = subprocess.Popen(
                [sys.executable, "-m", "xttir.refine.pass_server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            atexit.register(self.close)
        return self._process

    def _line(self, end: float) -> dict[str, Any] | None:
        """The next answer, or None when time is up. Raises `InputError` if the child is gone."""
        assert self._process is not None
        assert self._process.stdout is not None
        stream = self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, end - time.monotonic())):
                    return None
                data = os.read(stream.fileno(), 1 << 20)
                if not data:
                    self.close()
                    raise _no_passes()
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)


def _no_passes() -> InputError:
    if importlib.util.find_spec("triton") is None:
        return InputError("running passes needs Triton", hint=INSTALL)
    return InputError("cannot run passes: is Triton whole?")


_runner = PassRunner()


def apply(
    text: str, pipeline: str, file: str = "", *, nested: bool = False, timeout: float = TIMEOUT
) -> Applied:
    """Run a textual pass pipeline on a module (see `PassRunner.apply`)."""
    return _runner.apply(text, pipeline, file, nested=nested, timeout=timeout)


def _stage(answer: dict[str, Any]) -> Stage:
    pipeline = answer["pipeline"]
    return Stage(pass_name(pipeline), answer["text"], pipeline, located=answer["located"])


def _raise(answer: dict[str, Any], applied: Applied, names: list[str], file: str) -> None:
    log = applied.log
    stages = applied.stages
    name = names[min(max(0, len(stages) - 1), len(names) - 1)]
    if "crash" in answer:
        if not stages:
            raise rejected("crashed", answer["crash"], log, file)
        raise PassFailed(name, "crashed", answer["crash"], log, stages)
    kind, _, why = answer["error"].partition(": ")
    first = next((x for x in log.splitlines() if "error:" in x), "")
    message = first.partition("error:")[2].strip() or why
    if kind == "parse":
        raise rejected("failed", message, log, file)
    if kind == "pipeline":
        raise InputError(f"Triton knows no such pass or option: {message}")
    raise PassFailed(name, "failed", message, log, stages)


def rejected(how: str, why: str, log: str, file: str) -> InputError:
    """What to say of a module that Triton's parser does not read."""
    if how != "failed":
        return InputError(f"Triton's parser {how} ({why})", Location(file))
    first = next((x for x in log.splitlines() if "error:" in x), "")
    return InputError(f"Triton rejects the module: {why}", _place(first, file))


def _place(line: str, file: str) -> Location:
    where = re.match(r'.*module\.mlir"?:(\d+):(\d+)', line)
    if where is None:
        return Location(file)
    return Location(file, int(where[1]), int(where[2]))
