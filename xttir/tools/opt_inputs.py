"""What `xttir-opt` is given: a file, standard input, a file split at markers, or a whole dump.

A dump is what `MLIR_ENABLE_DUMP` writes (modules under banners), or a directory of
`TRITON_KERNEL_DUMP` or `TRITON_CACHE_DIR` (a file per kernel and stage). Each module of it is a
chunk of its own, with its file and its line.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from xttir.diagnostics import InputError, Location

MARKER = "// -----"
SUFFIXES = ("mlir", "ttir", "ttgir")
KNOWN = (*SUFFIXES, "ptx")

_BANNER = re.compile(r"^// -----// (IR Dump .*?) //----- //\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Chunk:
    """One module to process. `text` stands in the file `name` after `offset` other lines. `title`:
    what it is in a dump, "" elsewhere."""

    name: str
    text: str
    offset: int = 0
    title: str = ""

    @property
    def padded(self) -> str:
        """The text at its lines of the file."""
        return "\n" * self.offset + self.text


def read_chunks(name: str | None, kinds: set[str], marker: str | None) -> list[Chunk]:
    """The chunks of an input ("-" or None: standard input). `kinds`: suffixes of files that may be
    read, empty for any. `marker`: split at lines that begin with it. Raises `InputError`."""
    if name not in (None, "-") and os.path.isdir(str(name)):
        return _tree(Path(str(name)))
    text = _read(name, kinds)
    shown = "<stdin>" if name in (None, "-") else str(name)
    if _BANNER.search(text):
        return _dump(text, shown)
    if marker is None:
        return [Chunk(shown, text)]
    chunks, start = [], 0
    for match in re.finditer(rf"^{re.escape(marker)}.*\n?", text, re.MULTILINE):
        chunks.append(Chunk(shown, text[start : match.start()], text.count("\n", 0, start)))
        start = match.end()
    chunks.append(Chunk(shown, text[start:], text.count("\n", 0, start)))
    return chunks


def _dump(text: str, name: str) -> list[Chunk]:
    """A chunk per banner; what stands before the first is the compiler's own output."""
    chunks: list[Chunk] = []
    banners = list(_BANNER.finditer(text))
    ends = [b.start() for b in banners[1:]] + [len(text)]
    for banner, end in zip(banners, ends, strict=True):
        start = banner.end() + 1
        body = text[start:end]
        if body.strip() and "llvm.func" not in body:
            chunks.append(Chunk(name, body, text.count("\n", 0, start), banner[1]))
    if not chunks:
        raise InputError("the dump holds no module of Triton's", Location(name))
    return chunks


def _tree(folder: Path) -> list[Chunk]:
    """The modules in a directory, by folder, kernel and stage."""
    order = {".source": 0, ".ttir": 1, ".ttgir": 2, ".mlir": 3}
    files = [p for p in folder.rglob("*") if p.suffix in order]
    if not files:
        known = ", ".join(f".{suffix}" for suffix in SUFFIXES)
        raise InputError(f"no modules ({known}) in the directory", Location(str(folder)))
    files.sort(key=lambda p: (p.parent, p.stem, order[p.suffix]))
    return [Chunk(str(p), _read(str(p), set()), 0, str(p.relative_to(folder))) for p in files]


def _read(name: str | None, kinds: set[str]) -> str:
    data = b""
    try:
        if name in (None, "-"):
            data = sys.stdin.buffer.read()
        else:
            data = Path(str(name)).read_bytes()
        suffix = os.path.splitext(name or "")[1].removeprefix(".")
        if kinds and suffix and suffix not in kinds:
            known = ", ".join(f".{known}" for known in KNOWN)
            what = f"unknown kind of file '.{suffix}'"
            raise InputError(what, Location(name or "-"), f"expected {known} or -")
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        shown = "<stdin>" if name in (None, "-") else str(name)
        raise InputError(
            "not a text file (invalid UTF-8)", Location(shown, line, column)
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot read: {reason}", Location(str(name))) from error
