"""Checks inside Triton's own compile pipeline: every kernel that a process compiles is looked at.

    XTTIR_HOOK=validate python script.py            # where xttir is installed from a wheel
    python -m xttir.triton_hook [MODE] script.py    # anywhere
    xttir.triton_hook.install("validate")           # from code

Modes: `validate` (no pass changes what the kernel means), `verify` (no two programs conflict and no
access leaves its tensor, whatever the sizes), `layouts` (layouts fit each other); several are
separated by commas. What is found goes to standard error, and as one JSON object a line to the file
that XTTIR_HOOK_OUTPUT names. The compile itself is left as it is: Triton's official hook
(`knobs.runtime.add_stages_inspection_hook`) is only used to see modules, and nothing that goes
wrong here reaches the user's program.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xttir.refine.stages import Stage
    from xttir.tools.report import Report

MODES = ("validate", "verify", "layouts")

_KEY = "xttir-hook"


@dataclass
class Compiled:
    """A kernel on its way through Triton's pipeline.

    `source`: the module that the first stage is given, with locations; `ttir`, `ttgir`: after these
    stages. `first`: name of the first stage; `language`: Triton's.
    """

    target: Any
    options: Any
    language: Any
    first: str
    source: str = ""
    ttir: str = ""
    ttgir: str = ""

    @property
    def name(self) -> str:
        """The kernel's name, as far as the text says."""
        import re

        found = re.search(r"tt\.func public @(?:\"([^\"]+)\"|([\w$.-]+))", self.source)
        return (found[1] or found[2]) if found else "kernel"


@dataclass
class Hook:
    """What was installed. `reports`: one for every kernel and mode. Leaving it as a context manager
    takes it out again."""

    modes: tuple[str, ...]
    output: str = ""
    inputs: int = 32
    assume: str = ""
    before: Any = None
    """The hook that was there, which goes on being called."""
    reports: list[Report] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _busy: bool = False

    def __call__(self, *arguments: Any) -> Any:
        """Without arguments: what goes into Triton's cache key. With (backend, stages, options,
        language, capability): a compile begins."""
        if not arguments:
            other = self.before() if self.before is not None else ("", "")
            mine = f"{_KEY}-{','.join(self.modes)}"
            return mine + other[0], mine + other[1]
        if self.before is not None:
            self.before(*arguments)
        if not self._busy:
            self._safely(lambda: self._watch(*arguments[:4]))
        return None

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *exc: Any) -> None:
        uninstall(self)

    def _watch(self, backend: Any, stages: dict[str, Any], options: Any, language: Any) -> None:
        """Have the stages tell what they are given and what they make."""
        target = backend.target
        names = [name for name in stages if name in ("ttir", "glir", "ttgir")]
        if getattr(target, "backend", "") != "cuda" or not names:
            self._skip(f"a kernel for {getattr(target, 'backend', 'an unknown device')}")
            return
        seen = Compiled(target, options, language, names[0])
        for name in names:
            stages[name] = self._watched(seen, name, stages[name], name == names[-1])

    def _watched(
        self, seen: Compiled, name: str, run: Callable[..., Any], last: bool
    ) -> Callable[..., Any]:
        def watched(module: Any, metadata: Any) -> Any:
            if name == seen.first or not seen.source:
                self._safely(lambda: self._begin(seen, name, module))
            result = run(module, metadata)
            self._safely(lambda: self._after(seen, name, result, last))
            return result

        return watched

    def _begin(self, seen: Compiled, name: str, module: Any) -> None:
        seen.first, seen.source = name, module.str()

    def _after(self, seen: Compiled, name: str, module: Any, last: bool) -> None:
        text = module.str()
        if name == "ttgir":
            seen.ttgir = text
        else:
            seen.ttir = text
        if not last:
            return
        with self._lock:
            self._busy = True
            try:
                for mode in self.modes:
                    self._tell(seen, mode)
            finally:
                self._busy = False

    def _tell(self, seen: Compiled, mode: str) -> None:
        report = _LOOK[mode](seen, self)
        if report is None:
            return
        self.reports.append(report)
        _print(seen, mode, report)
        if self.output:
            _append(self.output, seen, mode, report)

    def _safely(self, work: Callable[[], None]) -> None:
        """Nothing that goes wrong here is the user's concern, but it is said."""
        try:
            work()
        except Exception as error:
            if os.environ.get("XTTIR_DEBUG", "0") not in ("", "0"):
                traceback.print_exc()
            text = " ".join(str(error).split())[:300]
            self._skip(f"{type(error).__name__}: {text}")

    def _skip(self, why: str) -> None:
        self.unchecked.append(why)
        print(f"xttir: not checked: {why}", file=sys.stderr, flush=True)


# What is looked at ------------------------------------------------------------------------------


def _validate(seen: Compiled, hook: Hook) -> Report:
    from xttir.tools.validate import Settings, Validator
    from xttir.tools.validate_report import ValidateReport

    settings = Settings(inputs=hook.inputs, cc=int(seen.target.arch))
    report = ValidateReport(policy=settings.policy())
    stages = _stages(seen)
    Validator(settings, report).subject(seen.name, "compiled just now", stages)
    return report


def _stages(seen: Compiled) -> list[Stage]:
    """The module after every pass, from a second run of the pipeline in a process of its own."""
    from xttir.refine.capture import ModuleSource, capture
    from xttir.refine.stages import plain_text

    source = ModuleSource(seen.source, "", seen.first, False)
    source.language = seen.language
    known = {k: v for k, v in vars(seen.options).items() if v is not None}
    stages = capture(source, seen.target, known, end="ttgir")
    made = seen.ttgir or seen.ttir
    if stages and plain_text(stages[-1].located) != plain_text(made):
        raise RuntimeError("the pipeline did not make the same module twice")
    return stages


def _layouts(seen: Compiled, hook: Hook) -> Report:
    """The first pass after which layouts do not fit."""
    from dataclasses import replace

    from xttir.analyses.layout_checks import check_layouts
    from xttir.tools.report import Report

    report = Report(command="layouts")
    report.launches = 1
    for stage in _stages(seen):
        if "#ttg." not in stage.text:
            continue
        found = check_layouts(stage.module_with_locations())
        report.counts.add("layouts", found.judged)
        for reason, count in found.unjudged.items():
            report.counts.skip(reason, count)
        if found.faults:
            note = f"after pass {stage.name or 'none'}"
            report.faults += [replace(f, notes=(*f.notes, note)) for f in found.faults]
            break
    return report


def _verify(seen: Compiled, hook: Hook) -> Report | None:
    """Conflicts and bounds for every size, from the TTIR."""
    from xttir.analyses.sizes.assume import from_words
    from xttir.analyses.sizes.prove import prove
    from xttir.diagnostics import Unsupported
    from xttir.frontends.mlir import parse_module
    from xttir.frontends.module_launch import find_function
    from xttir.tools.collect import problem
    from xttir.tools.report import Report

    if not seen.ttir or "#ttg." in seen.ttir:
        return None
    report = Report(command="verify")
    report.launches = 1
    module = parse_module(seen.ttir, f"{seen.name}.ttir")
    try:
        result = prove(from_words(module, find_function(module), hook.assume))
    except Unsupported as error:
        report.unsupported.append(problem(error))
        return report
    report.faults += result.faults
    for kind, count in result.asked.items():
        report.counts.add(kind, count)
    for place, why in result.open:
        report.counts.skip(f"{place}: {why}")
    return report


_LOOK: dict[str, Callable[[Compiled, Hook], Any]] = {
    "validate": _validate,
    "verify": _verify,
    "layouts": _layouts,
}


# Reports ------------------------------------------------------------------------------------------


def _print(seen: Compiled, mode: str, report: Report) -> None:
    from xttir.tools import render

    lines = []
    if report.faults or report.exit_code == 1:
        lines = list(render.report_lines(report))
    text = render.styled(lines, render.wants_color(sys.stderr)) if lines else ""
    left = f", {len(report.counts.not_done)} things not checked" if report.counts.not_done else ""
    print(f"{text}xttir {mode}: {seen.name}: {report.verdict}{left}", file=sys.stderr, flush=True)


def _append(file: str, seen: Compiled, mode: str, report: Report) -> None:
    import json

    from xttir.tools.json_report import object_json

    data = {"kernel": seen.name, "mode": mode, **object_json(report)}
    try:
        with open(file, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(data) + "\n")
    except OSError as error:
        what = f"cannot write '{file}' (XTTIR_HOOK_OUTPUT): {error.strerror or error}"
        print(f"xttir: {what}", file=sys.stderr, flush=True)


# Installation -------------------------------------------------------------------------------------


def modes_of(text: str) -> tuple[str, ...]:
    """Modes out of "validate,layouts". Raises ValueError."""
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    for word in found:
        if word not in MODES:
            raise ValueError(f"'{word}' is none of {', '.join(MODES)}")
    if not found:
        raise ValueError(f"no mode: say {', '.join(MODES)}")
    return found


def install(mode: str = "", *, output: str = "", inputs: int = 32, assume: str = "") -> Hook:
    """Look at every kernel that Triton compiles in this process from now on.

    `mode`: see above; XTTIR_HOOK, or "validate", when empty. `output`: a file for JSON lines
    (XTTIR_HOOK_OUTPUT). `inputs`: edge cases that `validate` makes for each kernel. `assume`: what
    `verify` knows of arguments, as for `xttir verify --assume` (XTTIR_HOOK_ASSUME). Kernels in
    Triton's cache on disk are compiled again. Raises ValueError for a mode that does not exist.
    """
    from triton import knobs

    chosen = modes_of(mode or os.environ.get("XTTIR_HOOK", "") or "validate")
    hook = Hook(
        chosen,
        output or os.environ.get("XTTIR_HOOK_OUTPUT", ""),
        inputs,
        assume or os.environ.get("XTTIR_HOOK_ASSUME", ""),
    )
    hook.before = knobs.runtime.add_stages_inspection_hook
    knobs.runtime.add_stages_inspection_hook = hook  # pyright: ignore[reportAttributeAccessIssue]
    # What is in the cache went through no pass that could be seen.
    knobs.compilation.always_compile = True
    return hook


def uninstall(hook: Hook) -> None:
    """Take a hook out again; Triton's cache is used as before."""
    from triton import knobs

    if knobs.runtime.add_stages_inspection_hook is hook:
        knobs.runtime.add_stages_inspection_hook = hook.before
        knobs.compilation.always_compile = os.environ.get("TRITON_ALWAYS_COMPILE", "0") == "1"


class _WhenImported(importlib.abc.MetaPathFinder):
    """Installs the hook as soon as Triton has been imported."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "triton":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            _quietly_install()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def arm() -> None:
    """Install the hook when Triton is imported, if XTTIR_HOOK asks for it. Raises nothing."""
    if not os.environ.get("XTTIR_HOOK"):
        return
    if "triton" in sys.modules:
        _quietly_install()
    elif not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())


def _quietly_install() -> None:
    try:
        install()
    except Exception as error:
        print(f"xttir: the hook is not installed: {error}", file=sys.stderr)


def main(words: Sequence[str]) -> int:
    """`python -m xttir.triton_hook [MODE] SCRIPT [ARGS]`, or `-m MODULE` for SCRIPT."""
    import runpy

    words = list(words)
    mode = ""
    if words and all(word in MODES for word in words[0].split(",")):
        mode = words.pop(0)
    if words and words[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    if not words or words == ["-m"]:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        os.environ["XTTIR_HOOK"] = ",".join(
            modes_of(mode or os.environ.get("XTTIR_HOOK", "") or "validate")
        )
    except ValueError as error:
        print(f"xttir: error: XTTIR_HOOK: {error}", file=sys.stderr)
        return 2
    if words[0] != "-m" and not os.path.exists(words[0]):
        what = f"no such file, and no mode either ({', '.join(MODES)})"
        print(f"xttir: error: cannot read '{words[0]}': {what}", file=sys.stderr)
        return 2
    arm()
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    # The hook that is installed belongs to the module under its own name, not to `__main__`.
    from xttir import triton_hook

    sys.exit(triton_hook.main(sys.argv[1:]))
