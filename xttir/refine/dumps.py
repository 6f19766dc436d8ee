"""Dumps that the user has made, as stages: what `MLIR_ENABLE_DUMP` writes, and the directories of
`TRITON_KERNEL_DUMP` and `TRITON_CACHE_DIR`.

MLIR prints the module before each pass, under a banner that names the pass that comes next; what a
pass made is what stands before the pass after it. So the module after the last pass of a pass
manager is only there if another follows.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from xttir.diagnostics import InputError, Location
from xttir.refine.pipeline import pass_name
from xttir.refine.stages import Stage

_BANNER = re.compile(
    r"^// -----// IR Dump (?P<when>Before|After)(?P<failed> \w+ Failed)? (?P<name>[^(:]*?)"
    r"(?:: (?P<pipeline>.*?))?(?: \((?P<target>[^)]*)\))?(?: \('(?P<op>[\w.]+)' operation"
    r"(?:: @(?P<symbol>\S+))?\))? //-----(?: //)?$"
)
_KERNEL = re.compile(r"tt\.func public @(?P<name>[\w$.-]+|\"[^\"]*\")")
_SUFFIXES = (".source", ".ttir", ".ttgir")


@dataclass
class Trace:
    """The stages of one kernel's compilation."""

    kernel: str
    about: str
    stages: list[Stage] = field(default_factory=list)


def read_dump(path: str) -> list[Trace] | None:
    """The traces in a dump file or directory; None for a file that is no dump. Raises `InputError`
    for a directory without any."""
    if path != "-" and os.path.isdir(path):
        return _directory(Path(path))
    if path == "-":
        return None
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", Location(path)) from error
    if "// -----// IR Dump" not in text:
        return None
    return parse_dump(text, path)


def parse_dump(text: str, path: str = "<dump>") -> list[Trace]:
    """The traces in the text of an MLIR dump; what is not part of one is passed over."""
    entries: list[tuple[re.Match[str], list[str], int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        banner = _BANNER.match(line)
        if banner is not None:
            entries.append((banner, [], number))
        elif entries:
            entries[-1][1].append(line)
    traces: list[Trace] = []
    made_by = ""
    for banner, lines, number in entries:
        module = module_lines(lines)
        if not module or (banner["op"] or "builtin.module") != "builtin.module":
            continue
        kernel = _KERNEL.search(module)
        name = kernel["name"].strip('"') if kernel else "?"
        pipeline = banner["pipeline"] or banner["name"].strip()
        fresh = not traces or traces[-1].kernel != name or _begins(pipeline, traces[-1])
        if fresh:
            traces.append(Trace(name, f"{path}:{number}"))
            made_by = ""
        if banner["when"] == "After":
            made_by = pipeline
        stage = Stage(pass_name(made_by), module, made_by, _part(module))
        if stage.part == "llvm":
            continue
        traces[-1].stages.append(stage)
        made_by = pipeline if banner["when"] == "Before" else ""
    found = [t for t in traces if t.stages]
    if not found:
        raise InputError("the dump holds no module of Triton's", Location(path))
    return found


def _begins(pipeline: str, trace: Trace) -> bool:
    """Whether a pass is the first of Triton's pipeline, so that another compilation begins."""
    at_gpu = bool(trace.stages) and trace.stages[-1].part == "ttgir"
    return at_gpu and pass_name(pipeline) in ("inline", "Inliner") and _is_first(pipeline)


def _is_first(pipeline: str) -> bool:
    return "inline" in pipeline.lower()


def module_lines(lines: list[str]) -> str:
    """The lines of a printed module: from its first to the brace that closes it, with aliases."""
    kept: list[str] = []
    depth, opened = 0, False
    for line in lines:
        alias = line.startswith(("#", "!"))
        if opened and depth == 0 and not alias:
            continue
        if (
            not opened
            and not alias
            and not line.lstrip().startswith(("module", '"builtin.module"'))
        ):
            continue
        kept.append(line)
        if not alias:
            opened = True
            depth += _braces(line)
    return "\n".join(kept) if opened else ""


def _braces(line: str) -> int:
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", line)
    return bare.count("{") + bare.count("(") - bare.count("}") - bare.count(")")


def _part(text: str) -> str:
    if "llvm.func" in text:
        return "llvm"
    return "ttgir" if re.search(r"\bttg\.|#ttg\.", text) else "ttir"


def _directory(folder: Path) -> list[Trace]:
    """One trace per kernel: `name.source`, `name.ttir`, `name.ttgir` in one directory."""
    traces: list[Trace] = []
    for directory in sorted({p.parent for p in folder.rglob("*.tt*ir")}):
        for name in sorted({p.stem for p in directory.glob("*.tt*ir")}):
            trace = Trace("", os.path.relpath(directory / name))
            for suffix in _SUFFIXES:
                file = directory / f"{name}{suffix}"
                if file.exists():
                    text = file.read_text(encoding="utf-8", errors="replace")
                    part = suffix[1:]
                    made = "" if not trace.stages else f"make_{part}"
                    trace.stages.append(Stage(made, text, "", part, str(file)))
            if len(trace.stages) > 1:
                traces.append(trace)
    if not traces:
        raise InputError(
            "no kernel with two stages (name.ttir, name.ttgir) in the directory",
            Location(str(folder)),
        )
    return traces
