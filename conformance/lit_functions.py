"""Functions of MLIR lit tests: module, RUN lines, and what FileCheck expects of each.

A test file is split at `// -----`; where Triton does not accept a module as a whole, its functions
are tried one by one, each with those that it calls.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FUNCTION = re.compile(r"^\s*tt\.func\s+(?:public\s+|private\s+)?@([\w$.-]+)", re.MULTILINE)
_LABEL = re.compile(r"//\s*CHECK-LABEL:\s*(.*)")


@dataclass(frozen=True)
class Run:
    """A RUN line: passes as the driver's flags name them, and prefixes of the checks."""

    flags: tuple[str, ...]
    prefixes: tuple[str, ...]


@dataclass(frozen=True)
class Function:
    """`before`, `text`, `after`: the module around a function; `checks`: the lines for FileCheck
    from its label on. `line`: where it begins in its file."""

    file: str
    line: int
    name: str
    before: str
    text: str
    after: str
    checks: tuple[str, ...]
    calls: tuple[str, ...]


def runs_of(text: str) -> list[Run]:
    found = []
    for line in re.findall(r"//\s*RUN:\s*(.*)", text):
        command, _, check = line.partition("|")
        flags = tuple(w.lstrip("-") for w in command.split() if w.startswith("-"))
        prefixes = re.search(r"--check-prefix(?:es)?=(\S+)", check)
        found.append(Run(flags, tuple(prefixes[1].split(",")) if prefixes else ("CHECK",)))
    return found


def chunks(path: Path) -> Iterator[list[Function]]:
    """The modules of a file as lists of functions."""
    text, line = path.read_text(), 1
    for chunk in re.split(r"(?m)^// -----.*$", text):
        yield list(_functions(chunk, path.name, line))
        line += chunk.count("\n")


def _functions(chunk: str, file: str, first: int) -> Iterator[Function]:
    starts = [m for m in _FUNCTION.finditer(chunk)]
    spans = [(m.start(), _end(chunk, m.end()), m[1]) for m in starts]
    if not spans:
        return
    before, after = chunk[: spans[0][0]], chunk[spans[-1][1] :]
    for start, end, name in spans:
        text = chunk[start:end]
        calls = tuple(re.findall(r"tt\.call @([\w$.-]+)", text))
        line = first + chunk.count("\n", 0, start) + 1
        yield Function(file, line, name, before, text, after, _checks(chunk, name), calls)


def _end(chunk: str, start: int) -> int:
    """Where the body that opens after `start` ends; comments and strings do not count."""
    depth, opened, at = 0, False, start
    body = re.compile(r'//[^\n]*|"(?:[^"\\]|\\.)*"|[{}]|\) ->|attributes')
    for match in body.finditer(chunk, start):
        word = match[0]
        if word == "{":
            depth += 1
            # The body is the last group that opens on the line that ends in its brace.
            opened = (
                opened
                or chunk[match.end() :].split("\n", 1)[0].strip() in ("",)
                or (chunk[match.end() :].split("\n", 1)[0].strip().startswith("//"))
            )
        elif word == "}":
            depth -= 1
            at = match.end()
            if depth == 0 and opened:
                return at
    return at


def _checks(chunk: str, name: str) -> tuple[str, ...]:
    """The lines with checks between the label of `name` and the next one."""
    found: list[str] = []
    inside = False
    for line in chunk.splitlines():
        label = _LABEL.search(line)
        if label is not None:
            word = re.search(r"@?([\w$.-]+)", label[1])
            inside = word is not None and word[1] == name
        if inside and re.search(r"//\s*[A-Z]+(-[A-Z]+)*(\{LITERAL\})?:", line):
            found.append(line)
    return tuple(found)


def module_of(functions: list[Function]) -> str:
    """The text of a module with these functions of one chunk."""
    head, tail = functions[0].before, functions[0].after
    return "\n".join([_plain(head), *(f.text for f in functions), _plain(tail)])


def _plain(text: str) -> str:
    return "\n".join(x for x in text.splitlines() if "RUN:" not in x)


def with_callees(function: Function, chunk: list[Function]) -> list[Function]:
    """The function and those that it calls, in the order of the chunk."""
    by_name = {f.name: f for f in chunk}
    wanted, todo = set(), [function.name]
    while todo:
        name = todo.pop()
        if name in by_name and name not in wanted:
            wanted.add(name)
            todo += by_name[name].calls
    return [f for f in chunk if f.name in wanted]


def printed(module: str, name: str) -> str:
    """The text of one function of a module that Triton has printed."""
    for match in _FUNCTION.finditer(module):
        if match[1] == name:
            return module[match.start() : _end(module, match.end())]
    return ""


def agrees(function: Function, text: str, prefixes: tuple[str, ...]) -> str:
    """ "" when `text` is what the test expects of the function, else what FileCheck says."""
    import contextlib
    import io

    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options

    if not function.checks:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        checks, given = Path(folder) / "checks", Path(folder) / "input"
        checks.write_text("\n".join(function.checks) + "\n")
        given.write_text(text + "\n")
        words = ["filecheck", str(checks), f"--input-file={given}"]
        options = parse_argv_options([*words, f"--check-prefixes={','.join(prefixes)}"])
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code = Matcher.from_opts(options).run()
    lines = [x for x in said.getvalue().splitlines() if x.strip()]
    return "" if code == 0 else " ".join(lines[:2])[:200] or "differs"
