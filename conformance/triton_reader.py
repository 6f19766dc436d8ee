"""Triton's own MLIR parser as a judge of text, in child processes that may crash.

`Reader.read` gives the verdict on one text and, where Triton accepts it, what Triton prints of it.
A rejected text is parsed once more without verification (through the C++ symbols that the wheel
exports) to tell an op that does not verify from text that does not parse. Verdicts are cached in a
JSON file by the text's hash. Needs Triton 3.9 (nanobind objects; the symbols stand in `.dynsym`).

As a module (`python -m conformance.triton_reader`) it is the child: one JSON request a line on
standard input, one answer a line on standard output.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

ACCEPTED, SYNTAX, ATTRIBUTE, VERIFIER, CRASH = (
    "accepted",
    "syntax",
    "attribute",
    "verifier",
    "crash",
)
"""Verdicts. `attribute`: the text parses, but a type or attribute in it does not verify."""

_SYNTAX = re.compile(
    r"expected |custom op '|operation being parsed with an unregistered dialect|Dialect `|"
    r".*created with unregistered dialect|use of value|redefinition of|cannot name an operation|"
    r"unexpected character|.*opIdx parameter .* (for|is)|duplicate or unknown"
)
"""Complaints of the parser itself; others are those of types and attributes about their values."""

_PARSE = (
    "_ZN4mlir17parseSourceStringEN4llvm9StringRefEPNS_5BlockERKNS_12ParserConfigE"
    "S1_PNS_12LocationAttrE"
)
_ALLOW = "_ZN4mlir11MLIRContext25allowUnregisteredDialectsEb"

_LIMIT = 60.0
"""Seconds that one text may take."""


@dataclass(frozen=True)
class Verdict:
    """What Triton says of a text. `digest`: of what it prints, values renumbered ("" if none)."""

    verdict: str
    message: str = ""
    digest: str = ""

    @property
    def accepted(self) -> bool:
        return self.verdict == ACCEPTED


class Reader:
    """Asks a child process, and starts a new one where it died. A context manager."""

    def __init__(self, cache: Path | None = None, python: str = sys.executable):
        self._python = python
        self._cache_path = cache
        self._cache: dict[str, dict[str, str]] = {}
        self._asked = 0
        if cache is not None and cache.exists():
            self._cache = json.loads(cache.read_text())
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.save()
        self._stop()

    def read(self, text: str, unregistered: bool = False) -> Verdict:
        """Triton's verdict; with `unregistered`, ops of unknown dialects are allowed."""
        key = hashlib.sha256(f"{unregistered:d}{text}".encode()).hexdigest()
        known = self._cache.get(key)
        if known is None:
            answer = self._ask(text, unregistered)
            known = self._cache[key] = asdict(
                Verdict(answer["verdict"], answer["message"], _digest(answer["text"]))
            )
            self._asked += 1
            if self._asked % 500 == 0:
                self.save()
        return Verdict(**known)

    def print(self, text: str, unregistered: bool = False) -> str | None:
        """What Triton prints of `text`, values renumbered; None if it does not accept it."""
        answer = self._ask(text, unregistered)
        return normal(answer["text"]) if answer["verdict"] == ACCEPTED else None

    def save(self) -> None:
        """Write the cache."""
        if self._cache_path is not None and self._asked:
            draft = self._cache_path.with_suffix(f".{os.getpid()}")
            draft.write_text(json.dumps(self._cache, indent=0))
            draft.replace(self._cache_path)

    def _ask(self, text: str, unregistered: bool) -> dict[str, str]:
        child = self._child
        if child is None or child.poll() is not None:
            child = self._child = subprocess.Popen(
                [self._python, "-m", "conformance.triton_reader"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps({"text": text, "unregistered": unregistered}) + "\n")
            child.stdin.flush()
            ready, _, _ = select.select([child.stdout], [], [], _LIMIT)
            line = child.stdout.readline() if ready else ""
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        self._stop()
        return {"verdict": CRASH, "message": "the parser died", "text": ""}

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None


def normal(text: str) -> str:
    """`text` with the SSA values of every function numbered in the order of their appearance."""
    names: dict[str, str] = {}
    lines = []
    for line in text.splitlines():
        if re.match(r"\s*(tt|func|llvm)\.func", line):
            names.clear()
        numbered = lambda m: names.setdefault(m.group(), f"%v{len(names)}")  # noqa: E731
        lines.append(re.sub(r"%[\w$.-]+", numbered, line))
    return "\n".join(lines)


def _digest(text: str) -> str:
    return hashlib.sha256(normal(text).encode()).hexdigest() if text else ""


class _Triton:
    """The parser inside the child. Every text gets a context of its own."""

    def __init__(self) -> None:
        import ctypes

        from triton._C import libtriton  # pyright: ignore[reportMissingImports]

        self._c: Any = ctypes
        self._library = ctypes.CDLL(libtriton.__file__)
        self._triton: Any = libtriton
        self._parse_string: Any = self._library[_PARSE]
        self._parse_string.restype = ctypes.c_bool
        self._allow: Any = self._library[_ALLOW]

    def read(self, text: str, unregistered: bool, complaints: TextIO) -> dict[str, str]:
        """The answer to one request; MLIR writes its complaints to the file `complaints`."""
        ir = self._triton.ir
        context = ir.context()
        ir.load_dialects(context)
        for backend in (self._triton.nvidia, self._triton.amd):
            backend.load_dialects(context)
        if unregistered:
            self._allow(self._c.c_void_p(self._pointer(context)), True)
        complaints.seek(0)
        complaints.truncate()
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write(text)
            file.flush()
            try:
                module = ir.parse_mlir_module(file.name, context)
            except RuntimeError:
                complaints.seek(0)
                return self._rejected(text, context, complaints.read())
        return {"verdict": ACCEPTED, "message": "", "text": module.str_nodebug()}

    def _rejected(self, text: str, context: Any, complaint: str) -> dict[str, str]:
        found = re.search(r"error: (.*)", complaint)
        message = found.group(1) if found else complaint.strip()
        if self._parses(text, context):
            verdict = VERIFIER
        else:
            verdict = SYNTAX if _SYNTAX.match(message) else ATTRIBUTE
        return {"verdict": verdict, "message": message, "text": ""}

    def _parses(self, text: str, context: Any) -> bool:
        """Whether `text` parses where ops are not verified."""
        c, encoded = self._c, text.encode()
        # ParserConfig: context, whether to verify (padded to 8 bytes), resource map.
        config = (c.c_uint64 * 3)(self._pointer(context), 0, 0)
        block = self._triton.ir.builder(context).new_block()
        return self._parse_string(
            c.c_char_p(encoded),
            c.c_size_t(len(encoded)),
            c.c_void_p(self._pointer(block)),
            config,
            c.c_char_p(b"text"),
            c.c_size_t(4),
            None,
        )

    def _pointer(self, value: object) -> int:
        """The C++ object in a nanobind object: its offset at +16; flag "direct" in bit 2 at +20."""
        c, base = self._c, id(value)
        place = base + c.c_int32.from_address(base + 16).value
        if c.c_uint32.from_address(base + 20).value >> 2 & 1:
            return place
        return c.c_void_p.from_address(place).value


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
    os.dup2(complaints.fileno(), 2)
    os.dup2(complaints.fileno(), 1)
    triton = _Triton()
    for line in sys.stdin:
        request = json.loads(line)
        answer = triton.read(request["text"], request["unregistered"], complaints)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
