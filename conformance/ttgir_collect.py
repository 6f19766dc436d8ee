"""Collects what public Triton code is compiled to: modules after barrier insertion, with launches.

    python -m conformance.ttgir_collect --modules FOLDER [--cc 80,90,100] [--what REGEX]
        [--source TRITON_CHECKOUT] [--shared DIR]

Sources: the operations of liger-kernel and fla-core (the tables of this folder), Triton's tutorials
and Gluon's tutorials, examples and tests of a checkout, the scripts, reports and corpus of
`XTTIR_SHARED`. Launches are recorded, not run: what kernels compute does not matter here, and most
programs launch the same kernels without it. A source that has come to its end is not done again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from conformance import forked, results
from conformance.ttgir_modules import Kept, Store, key_of_text
from conformance.works import operation, tutorial
from xttir.diagnostics import XttirError

TABLES = ("liger_losses", "liger_layers", "fla_recurrent", "fla_attention", "fla_modules")
TUTORIALS = tuple(f"tutorial {n:02d}" for n in range(1, 10))
GLUON = (
    ("gluon tutorial", "python/tutorials/gluon", "[0-9]*.py"),
    ("gluon example", "python/examples/gluon", "[0-9]*.py"),
    ("gluon test", "python/test/gluon", "test_core.py"),
    ("gluon test", "python/test/gluon", "test_lowerings.py"),
    ("gluon test", "python/test/gluon", "test_consan.py"),
)
CHOSEN = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Options that a launch gives."""
KNOWN_BYTES = 1 << 20
"""Of integer contents kept of a tensor, at most."""


@dataclass(frozen=True)
class Plan:
    """What a process does: for which capability, how long a source may take, and into what.
    `per_kernel`: modules of a kernel that are enough, 0 for all. `also`: capabilities for which the
    same launches are compiled, too, whatever the program would have chosen for them."""

    cc: int
    folder: Path
    seconds: float
    configs: int
    sample: int
    per_kernel: int = 0
    also: tuple[int, ...] = ()

    @property
    def store(self) -> Store:
        return Store(self.folder)


def main() -> int:
    shared = Path(os.environ.get("XTTIR_SHARED", "../shared"))
    parser = argparse.ArgumentParser(prog="python -m conformance.ttgir_collect")
    parser.add_argument(
        "--modules", type=Path, default=results.default_path("ttgir").with_suffix("")
    )
    parser.add_argument("--cc", default="80,90,100", help="compute capabilities (80,90,100)")
    parser.add_argument("--what", default="", help="only sources whose name matches this")
    parser.add_argument("--source", type=Path, help="a checkout of Triton")
    parser.add_argument("--shared", type=Path, default=shared)
    parser.add_argument("--seconds", type=float, default=600, help="for a source (600)")
    parser.add_argument("--configs", type=int, default=2, help="of an autotuner; 0 for all (2)")
    parser.add_argument("--also", default="", help="other capabilities for the same launches")
    parser.add_argument("--per-kernel", type=int, default=0, help="modules; 0 for all (0)")
    parser.add_argument("--sample", type=int, default=2, help="parameter sets of a test (2)")
    args = parser.parse_args()
    for cc in map(int, args.cc.split(",")):
        folder = args.modules.resolve()
        also = tuple(int(c) for c in args.also.split(",") if c)
        plan = Plan(cc, folder, args.seconds, args.configs, args.sample, args.per_kernel, also)
        forked.run(_files, None, plan, args)
        forked.run(_packages, None, plan, args)
        if args.source is not None:
            for name, folder, pattern in GLUON:
                for path in sorted((args.source / folder).glob(pattern)):
                    _gluon(plan, f"{name} {path.stem}", path.resolve(), args)
    print(summary(Store(args.modules)))
    return 0


@contextlib.contextmanager
def _due(plan: Plan, name: str, args: argparse.Namespace) -> Any:
    """Yields whether a source is to be done, and marks it as done when it is."""
    source = f"{plan.cc} {name}"
    wanted = bool(re.search(args.what, name)) and source not in plan.store.done()
    began, before = time.monotonic(), len(plan.store.all()) if wanted else 0
    yield wanted
    if wanted:
        seconds = time.monotonic() - began
        plan.store.mark(source, seconds)
        print(f"{source}: {len(plan.store.all()) - before} new, {seconds:.0f} s", flush=True)


# What a launch is compiled to -------------------------------------------------------------------


def record(
    plan: Plan, group: str, origin: str, launch: Any, known: set[str], counts: Counter[str]
) -> None:
    """Keep the module that a launch of Triton's is compiled to, if it is new. `counts`: how many
    there are of every kernel."""
    from xttir.refine.capture import capture_launch

    key = _source_key(launch)
    if key in known or (plan.per_kernel and counts[launch.kernel] >= plan.per_kernel):
        return
    known.add(key)
    counts[launch.kernel] += 1
    arguments, contents = numbers_of(launch.arguments)
    kept = Kept("", group, origin, plan.cc, launch.kernel, launch.grid, arguments, "")
    for cc in (plan.cc, *plan.also):
        try:
            made = _compiled(launch, cc) if cc != plan.cc else capture_launch(launch, end="llir")
        except XttirError as error:
            print(f"  {cc} {launch.kernel}: {str(error)[:200]}", flush=True)
            continue
        keep(plan, replace(kept, cc=cc), made, contents)


def _compiled(launch: Any, cc: int) -> list[Any]:
    """The stages of a launch's kernel for another capability."""
    from triton.backends.compiler import GPUTarget

    from xttir.frontends.triton.compile import full_compile, options_of
    from xttir.refine.capture import capture

    kernel = launch.compiled.kernel
    options = options_of(getattr(kernel.metadata, "_raw", kernel.metadata))
    chosen = {n: options[n] for n in CHOSEN if n in options}
    with full_compile():
        return capture(kernel.src, GPUTarget("cuda", cc, 32), chosen, end="llir")


def keep(plan: Plan, kept: Kept, stages: list[Any], contents: dict[int, np.ndarray]) -> None:
    """Add the last of the stages of a compilation to the store, if there is none like it."""
    last = stages[-1]
    key = key_of_text(last.text, kept.cc)
    if not (plan.folder / f"{key}.mlir").exists():
        entry = replace(kept, key=key, stage=last.name, tensors=sorted(contents))
        plan.store.add(entry, last.located or last.text, contents)


def _source_key(launch: Any) -> str:
    """Equal for launches of the same source module compiled with the same options."""
    from xttir.frontends.triton.compile import options_of

    kernel = launch.compiled.kernel
    raw = getattr(kernel.metadata, "_raw", kernel.metadata)
    options = options_of(raw)
    chosen = [(n, options.get(n)) for n in CHOSEN]
    return hashlib.sha1((kernel.ir_text + repr(chosen)).encode()).hexdigest()


def numbers_of(arguments: Any) -> tuple[dict[int, int | float], dict[int, np.ndarray]]:
    """Scalars, and contents of integer tensors, by index of the parameter."""
    from xttir.interp.launch import ScalarArg, TensorArg

    numbers: dict[int, int | float] = {}
    contents: dict[int, np.ndarray] = {}
    for index, argument in enumerate(arguments):
        if isinstance(argument, ScalarArg):
            value = argument.value
            numbers[index] = value if isinstance(value, float) else int(value)
        elif isinstance(argument, TensorArg) and argument.dtype.kind in "iub":
            held = argument.storage.bytes[argument.offset :]
            if len(held) <= KNOWN_BYTES:
                whole = held[: len(held) // argument.dtype.itemsize * argument.dtype.itemsize]
                contents[index] = np.frombuffer(whole.tobytes(), argument.dtype)
    return numbers, contents


def recording(plan: Plan, seen: Callable[[Any], None]) -> Any:
    """A session that shows every launch to `seen` and runs none."""
    from xttir.policy import RunPolicy
    from xttir.session import Session

    class Recording(Session):
        def _run(self, launch: Any) -> None:
            with self._lock:
                seen(launch)

    return Recording(replace(RunPolicy(), cc=plan.cc).with_checks("none"))


# Packages, tutorials, scripts ---------------------------------------------------------------------


def _packages(plan: Plan, args: argparse.Namespace) -> None:
    """Operations of the tables, Triton's tutorials and plain scripts, each in a fork."""
    import torch

    from conformance import compare
    from conformance.worker import limit_autotuning

    torch.set_num_threads(1)
    work: dict[str, Callable[[], None]] = {}
    current: list[str] = [""]
    known: set[str] = set()
    counts: Counter[str] = Counter()

    def seen(launch: Any) -> None:
        record(plan, current[0].split(" ")[0], current[0], launch, known, counts)

    with recording(plan, seen):
        limit_autotuning(plan.configs)
        for table in TABLES:
            before = set(compare.TABLE)
            importlib.import_module(f"conformance.{table}")
            for op in [op for op in compare.TABLE if op not in before]:
                work[f"{table.partition('_')[0]} {op}"] = operation(compare.TABLE[op])
        if args.source is not None:
            folder = args.source.resolve() / "python" / "tutorials"
            work |= {name: tutorial(folder, name) for name in TUTORIALS}
        for path in sorted((args.shared / "cases" / "triton").glob("*.py")):
            work[f"script {path.stem}"] = _script(path)
        for path in sorted((args.shared / "cases" / "reports").glob("*/*.py")):
            work[f"report {path.parent.name}/{path.stem}"] = _script(path)
        for name, run in work.items():
            with _due(plan, name, args) as due:
                if due:
                    current[0] = name
                    counts = Counter(k.kernel for k in plan.store.all() if k.cc == plan.cc)
                    ended = forked.run(_quiet, plan.seconds, run)
                    if ended:
                        print(f"  {name}: {ended}", flush=True)


def _quiet(run: Callable[[], None]) -> None:
    try:
        run()
    except SystemExit:
        pass
    except Exception as error:
        print(f"  {type(error).__name__}: {str(error)[:200]}", flush=True)


def _script(path: Path) -> Callable[[], None]:
    def run() -> None:
        import runpy

        sys.argv = [str(path)]
        with open(os.devnull, "w") as sink, contextlib.redirect_stdout(sink):
            runpy.run_path(str(path), run_name="__main__")

    return run


# Gluon: tests run by pytest with this module as a plugin ------------------------------------------


def _gluon(plan: Plan, name: str, path: Path, args: argparse.Namespace) -> None:
    with _due(plan, name, args) as due:
        if not due:
            return
        tests = args.source.resolve() / "python"
        root = Path(__file__).parent.parent
        near = [str(tests / "tutorials" / "gluon"), str(tests / "examples" / "gluon")]
        paths = os.pathsep.join([str(root), *near, os.environ.get("PYTHONPATH", "")])
        settings = {
            "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "TTGIR_COLLECT": str(plan.folder),
            "TTGIR_COLLECT_NAME": name, "TTGIR_COLLECT_CC": str(plan.cc),
            "TTGIR_COLLECT_SAMPLE": str(plan.sample),
        }  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-c", os.devnull]
        command += [f"--rootdir={tests}", f"--confcutdir={tests}", "--import-mode=importlib"]
        command += ["-p", "no:cacheprovider", "-p", "conformance.ttgir_collect"]
        command += ["-p", "conformance.no_cublas", "--timeout=120", "--tb=line", str(path)]
        with tempfile.TemporaryDirectory() as scratch:
            try:
                ended = subprocess.run(
                    command, env=os.environ | settings, cwd=scratch, capture_output=True,
                    text=True, timeout=plan.seconds,
                )  # fmt: skip
                lines = (ended.stdout + ended.stderr).strip().splitlines()
                print(f"  {name}: {lines[-1] if lines else ''}", flush=True)
            except subprocess.TimeoutExpired:
                print(f"  {name}: more than {plan.seconds:g} seconds", flush=True)


_session: Any = None


def pytest_configure(config: Any) -> None:
    global _session
    if "TTGIR_COLLECT" not in os.environ:
        return
    plan = Plan(int(os.environ["TTGIR_COLLECT_CC"]), Path(os.environ["TTGIR_COLLECT"]), 0, 2, 0)
    name = os.environ["TTGIR_COLLECT_NAME"]
    known: set[str] = set()

    def seen(launch: Any) -> None:
        record(plan, "gluon", f"{name} {launch.kernel}", launch, known, Counter())

    _session = recording(plan, seen)
    _session.__enter__()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Up to so many parameter sets of each test function."""
    count = int(os.environ.get("TTGIR_COLLECT_SAMPLE", "0"))
    if count:
        groups: dict[str, list[Any]] = {}
        for item in items:
            groups.setdefault(item.nodeid.split("[")[0], []).append(item)
        rng = random.Random(0)
        chosen = {i for g in groups.values() for i in rng.sample(g, min(count, len(g)))}
        items[:] = [item for item in items if item in chosen]


def pytest_unconfigure(config: Any) -> None:
    if _session is not None:
        _session.__exit__(None, None, None)


# Files --------------------------------------------------------------------------------------------


def _files(plan: Plan, args: argparse.Namespace) -> None:
    """TTGIR of the corpus and of the reports."""
    for path in sorted((args.shared / "corpus" / "triton").glob(f"*/{plan.cc}/ttgir.loc.mlir")):
        with _due(plan, f"corpus {path.parent.parent.name}", args) as due:
            if due:
                _made_up(plan, "corpus", path.parent.parent.name, path)
    for path in sorted((args.shared / "cases" / "reports").glob("*/*.ttgir")):
        if plan.cc == capability_of(path.read_text()):
            name = f"{path.parent.name}/{path.stem}"
            with _due(plan, f"report file {name}", args) as due:
                if due:
                    _report(plan, name, path)


def capability_of(text: str) -> int:
    """What a TTGIR module is for."""
    found = re.search(r'"?ttg\.target"? = "cuda:(\d+)"', text)
    return int(found[1]) if found else 90


def _made_up(plan: Plan, group: str, name: str, path: Path) -> None:
    """A module without a launch, at numbers that suit the names of its parameters."""
    from conformance.ttgir_corpus import arguments, grid_of, kernel_of, names_of
    from xttir.frontends.mlir import parse_module

    text = path.read_text()
    kernel = kernel_of(parse_module(text, str(path), verify=False))
    symbol = kernel.sym_name.data
    numbers, _ = numbers_of(arguments(kernel, names_of(text, symbol), 0))
    kept = Kept("", group, name, plan.cc, symbol, grid_of(kernel), numbers, "", launch=False)
    _lower(plan, kept, text, path)


def _report(plan: Plan, name: str, path: Path) -> None:
    """A report's TTGIR at the launch of its PTX: the same parameters, and two more at the end."""
    from xttir.frontends.launch_description import ScalarParam, load

    launch = load(path.with_suffix(".launch.json"))
    numbers = {i: p.value for i, p in enumerate(launch.params) if isinstance(p, ScalarParam)}
    x, y, z = launch.grid
    blocks = launch.cluster[0]
    grid = (x // blocks, y, z)
    _lower(plan, Kept("", "report", name, plan.cc, launch.entry, grid, numbers, ""),
           path.read_text(), path)  # fmt: skip


def _lower(plan: Plan, kept: Kept, text: str, path: Path) -> None:
    from xttir.refine.capture import capture_module
    from xttir.refine.stages import Stage

    try:
        stages = capture_module(Stage("", text, file=str(path)), plan.cc, end="llir")
    except XttirError as error:
        print(f"  {kept.origin}: {str(error)[:200]}", flush=True)
        return
    keep(plan, kept, stages, {})


def summary(store: Store) -> str:
    """How many modules of each kind, by capability."""
    counts: dict[str, dict[int, int]] = {}
    for kept in store.all():
        by_cc = counts.setdefault(kept.group, {})
        by_cc[kept.cc] = by_cc.get(kept.cc, 0) + 1
    rows = [
        f"{g:10} {', '.join(f'cc {c}: {n}' for c, n in sorted(by.items()))}"
        for g, by in counts.items()
    ]
    return "\n".join([*rows, f"{sum(n for by in counts.values() for n in by.values())} modules"])


if __name__ == "__main__":
    sys.exit(main())
