"""Do TTIR and TTGIR of the kernels that a script launches leave the same bytes in memory?

python -m conformance.ttgir_scripts [--cc 100] [--stages] [--once] SCRIPT [ARGS]

Every launch of the script runs as TTIR and, from the same memory, as TTGIR: warp-specialised,
pipelined, through shared and tensor memory, as Triton compiles it for the device. Memory must agree
bit for bit, and no fault may appear that the other has not. With `--stages` so does the module that
every pass leaves. Prints the CPU time of both.
"""

from __future__ import annotations

import argparse
import contextlib
import runpy
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import xttir
from xttir.diagnostics import XttirError
from xttir.frontends.mlir import parse_module
from xttir.interp.executor import run_launch
from xttir.interp.launch import DescriptorArg, Launch, Storage, TensorArg
from xttir.policy import RunPolicy
from xttir.refine.capture import capture_launch


def storages_of(launch: Launch) -> list[Storage]:
    """The storages that the launch's arguments reach."""
    found: dict[int, Storage] = {}
    for argument in launch.arguments:
        tensor = argument.tensor if isinstance(argument, DescriptorArg) else argument
        if isinstance(tensor, TensorArg):
            found[id(tensor.storage)] = tensor.storage
    return list(found.values())


def stages_of(launch: Launch, every: bool) -> list[tuple[str, str]]:
    """(name, text) of the modules to compare with the launch's TTIR: its TTGIR, or with `every`
    what each pass makes of it, as far as it differs."""
    if not every:
        return [("ttgir", launch.compiled.kernel.asm["ttgir"])]
    found: list[tuple[str, str]] = []
    for stage in capture_launch(launch):
        text = stage.located or stage.text
        if all(text != known for _, known in found):
            found.append((f"{stage.part} after {stage.name or 'the front end'}", text))
    return found


class Judge:
    """Runs every launch as TTIR and as what it is compiled to, and compares. With `once`, only the
    first launch of each kernel and configuration."""

    def __init__(self, policy: RunPolicy, repeat: int, every: bool, once: bool):
        self.policy = policy
        self.repeat = repeat
        self.every = every
        self.once = once
        self.tally: Counter[str] = Counter()
        self.seen: set[Any] = set()
        self.seconds = [0.0, 0.0]

    def __call__(self, launch: Launch) -> None:
        key = launch.compiled.kernel.asm["ttgir"]
        if self.once and key in self.seen:
            return
        self.seen.add(key)
        storages = storages_of(launch)
        before = [(s.bytes.copy(), None if s.valid is None else s.valid.copy()) for s in storages]
        grid = "x".join(map(str, launch.grid))

        def run(module: ModuleOp) -> Outcome:
            start = time.process_time()
            try:
                result = run_launch(replace(launch, module=module), self.policy)
                spent = time.process_time() - start
                memory = [s.bytes.copy() for s in storages]
            finally:
                for storage, (data, valid) in zip(storages, before, strict=True):
                    storage.bytes[...] = data
                    storage.valid = None if valid is None else valid.copy()
            return Outcome({(str(f.kind), f.message) for f in result.faults}, memory, spent)

        source: Outcome | None = None
        for name, text in stages_of(launch, self.every):
            try:
                module = parse_module(text, f"{launch.kernel}, {name}", verify=False)
                best = []
                for _ in range(self.repeat):
                    first, second = run(launch.module), run(module)
                    source = source or first
                    best.append((first.seconds, second.seconds))
                kind, why = compare(source or first, second)
                spent = [min(column) for column in zip(*best, strict=True)]
                self.seconds = [a + b for a, b in zip(self.seconds, spent, strict=True)]
                why = f"{spent[0]:.2f} s, {spent[1]:.2f} s {why}"
            except XttirError as error:
                kind, why = type(error).__name__, str(error)
            self.tally[kind] += 1
            self.said(kind, f"{kind:12} {launch.kernel} {grid} {name} {why}")

    def said(self, kind: str, line: str) -> None:
        """What came out of one comparison: its kind ("equal" is good), and a line to print."""
        if kind != "equal" or not self.every:
            print(line, flush=True)


@dataclass
class Outcome:
    """Faults, memory and CPU seconds of a run."""

    faults: set[tuple[str, str]]
    memory: list[np.ndarray]
    seconds: float


def compare(source: Outcome, target: Outcome) -> tuple[str, str]:
    """The verdict ("equal", "values", "faults"), and why."""
    new = target.faults - source.faults
    if new:
        return "faults", "; ".join(f"{kind}: {text}" for kind, text in sorted(new))
    for n, (a, b) in enumerate(zip(source.memory, target.memory, strict=True)):
        if not np.array_equal(a, b):
            return "values", f"storage {n}: {(a != b).sum()} of {a.size} bytes"
    return "equal", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cc", type=int, default=100)
    parser.add_argument("--batch", type=int, default=0, help="programs in a batch (0: as usual)")
    parser.add_argument("--repeat", type=int, default=1, help="runs; the fastest counts")
    parser.add_argument("--checks", default="all")
    parser.add_argument("--stages", action="store_true", help="what every pass makes of a kernel")
    parser.add_argument("--once", action="store_true", help="one launch of each configuration")
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    policy = replace(RunPolicy(), cc=options.cc, batch=options.batch).with_checks(options.checks)
    if options.stages:
        # Proxy fences come with a late pass.
        policy = replace(policy, checks=policy.checks - {"proxy"})
    judge = Judge(policy, options.repeat, options.stages, options.once)
    sys.argv = [options.script, *options.args]
    with xttir.sanitize(policy=policy) as session:
        session.before = judge
        with contextlib.suppress(SystemExit):
            runpy.run_path(options.script, run_name="__main__")
    print(", ".join(f"{count} {kind}" for kind, count in judge.tally.most_common()))
    first, second = judge.seconds
    print(
        f"CPU time: TTIR {first:.4f} s, TTGIR {second:.4f} s, ratio {second / max(first, 1e-9):.2f}"
    )
    return 0 if set(judge.tally) <= {"equal"} else 1


if __name__ == "__main__":
    raise SystemExit(main())
