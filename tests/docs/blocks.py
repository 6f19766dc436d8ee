"""The examples in the documentation: what they are, and how they are run.

In every Markdown file of the project, from top to bottom in one folder that begins as a copy of
`examples/`:

* a ```python, ```mlir or ```ptx block whose first line is `# file: NAME` (`// file:`) is that file;
* any other ```python block is run as a script;
* a ```console block holds commands after `$ ` and, below each, what it prints (standard output,
  then standard error). A line `...` stands for any number of lines, `...` within a line for any
  text, and seconds and counts of checks may differ. A command with no output below it may print
  anything.

Other blocks (sh, text, yaml, json) are not run. `python -m tests.docs.update` writes what commands
print now into the files, except where `...` stands.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.clean_process import Outcome, run

ROOT = Path(__file__).resolve().parent.parent.parent

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

ENVIRONMENT = {"TRITON_DEFAULT_FP_FUSION": "1", "COLUMNS": "80", "PY_COLORS": "0"}

MODULES = {"xttir": "xttir", "xttir-opt": "xttir.tools.xttir_opt"}
"""Commands that are modules."""


@dataclass(frozen=True)
class Block:
    """A fenced block. `start`, `end`: where its body stands in the file's text."""

    language: str
    body: str
    line: int
    start: int
    end: int


@dataclass(frozen=True)
class Step:
    """A command of a console block and what is shown below it."""

    command: str
    shown: str


def documents() -> list[Path]:
    """Every Markdown file whose examples are run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(text: str) -> list[Block]:
    return [
        Block(m[1], m[2], text.count("\n", 0, m.start()) + 1, m.start(2), m.end(2))
        for m in FENCE.finditer(text)
        if m[1] in ("python", "mlir", "ptx", "console")
    ]


def steps_of(body: str) -> list[Step]:
    """Commands and the output below each."""
    parts = re.split(r"^\$ (.*)\n", body, flags=re.MULTILINE)
    assert not parts[0].strip(), f"output before the first command: {parts[0]!r}"
    return [Step(c, shown) for c, shown in zip(parts[1::2], parts[2::2], strict=True)]


class Shell:
    """Runs the commands that documents use, in one folder; remembers the last exit code."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.status = 0
        for file in filter(Path.is_file, (ROOT / "examples").iterdir()):
            target = folder / "examples" / file.name
            target.parent.mkdir(exist_ok=True)
            shutil.copy(file, target)

    def run(self, command: str) -> str:
        """What the command prints."""
        words = shlex.split(command)
        environment = dict(ENVIRONMENT)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        if words == ["echo", "$?"]:
            return f"{self.status}\n"
        if words[0] == "cat":
            return "".join((self.folder / name).read_text() for name in words[1:])
        if words[0] == "pytest":
            # pytest warns of modules that were imported before it: a process of its own.
            done = subprocess.run(
                [sys.executable, "-m", *words],
                cwd=self.folder,
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                timeout=240,
            )
            return self._printed(Outcome(done.returncode, done.stdout, done.stderr))
        if words[0] == "python":
            return self._python(words[1:], environment)
        assert words[0] in MODULES, f"documents may not use {words[0]!r}: see tests/docs/blocks.py"
        return self._printed(
            run(MODULES[words[0]], *words[1:], cwd=self.folder, environment=environment)
        )

    def _python(self, words: list[str], environment: dict[str, str]) -> str:
        if words[0] == "-m":
            module, args = words[1], words[2:]
        else:
            module, args = words[0].removesuffix(".py"), words[1:]
        return self._printed(run(module, *args, cwd=self.folder, environment=environment))

    def _printed(self, done: Outcome) -> str:
        assert done.code is not None, "the command did not end in time"
        self.status = done.code
        return done.stdout + done.stderr

    def python(self, body: str, name: str) -> Outcome:
        (self.folder / f"{name}.py").write_text(body)
        return run(name, cwd=self.folder, environment=ENVIRONMENT)


def file_of(block: Block) -> str | None:
    """The file name that a block is for."""
    match = re.match(r"(?:#|//) file: (\S+)\n", block.body)
    return match[1] if match else None


def matches(shown: str, printed: str, exactly: bool = False) -> bool:
    """Whether `printed` is what the document shows; `exactly`: which checks were done, too."""
    if not shown.strip():
        return True
    pattern = ""
    for line in _plain(shown, exactly).rstrip("\n").split("\n"):
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.split("...")) + r"[ ]*\n"
    return re.fullmatch(pattern + r"\n*", _plain(printed, exactly)) is not None


def _plain(text: str, exactly: bool) -> str:
    """Without seconds, which differ from run to run, and counts of checks, which are a matter of
    how the interpreter goes about it."""
    text = re.sub(r"\d+\.\d+ ?s\b", "N s", text)
    if not exactly:
        text = re.sub(r"^Checked: \w+ \(.*", "Checked: N", text, flags=re.MULTILINE)
    return text if text.endswith("\n") else text + "\n"
