"""Do TTIR and TTGIR of the kernels that a script launches leave the same bytes in memory?

python -m conformance.ttgir_scripts [--cc 100] SCRIPT [ARGS]

Every launch of the script runs as TTIR and, from the same memory, as TTGIR: warp-specialised,
pipelined, through shared and tensor memory, as Triton compiles it for the device. Memory must agree
bit for bit, and no fault may appear that the other has not. Prints the CPU time of both.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

import xttir
from xttir.diagnostics import XttirError
from xttir.frontends.mlir import parse_module
from xttir.interp.executor import run_launch
from xttir.interp.launch import DescriptorArg, Launch, Storage, TensorArg
from xttir.policy import RunPolicy


def storages_of(launch: Launch) -> list[Storage]:
    """The storages that the launch's arguments reach."""
    found: dict[int, Storage] = {}
    for argument in launch.arguments:
        tensor = argument.tensor if isinstance(argument, DescriptorArg) else argument
        if isinstance(tensor, TensorArg):
            found[id(tensor.storage)] = tensor.storage
    return list(found.values())


def ttgir_of(launch: Launch) -> str:
    """The TTGIR that Triton makes of the launch's kernel."""
    return launch.compiled.kernel.asm["ttgir"]


class Judge:
    """Runs every launch twice and compares."""

    def __init__(self, policy: RunPolicy, repeat: int):
        self.policy = policy
        self.repeat = repeat
        self.tally: Counter[str] = Counter()
        self.modules: dict[str, Any] = {}
        self.seconds = [0.0, 0.0]

    def __call__(self, launch: Launch) -> None:
        kind, why = self.judge(launch)
        self.tally[kind] += 1
        grid = "x".join(map(str, launch.grid))
        print(f"{kind:12} {launch.kernel} {grid} {why}", flush=True)

    def judge(self, launch: Launch) -> tuple[str, str]:
        storages = storages_of(launch)
        before = [(s.bytes.copy(), None if s.valid is None else s.valid.copy()) for s in storages]
        text = ttgir_of(launch)
        module = self.modules.get(text)
        if module is None:
            module = self.modules[text] = parse_module(text, f"{launch.kernel}.ttgir")
        faults: list[set[tuple[Any, str]]] = []
        memory: list[list[np.ndarray]] = []
        spent: list[float] = []
        try:
            for m in (launch.module, module) * self.repeat:
                start = time.process_time()
                result = run_launch(replace(launch, module=m), self.policy)
                spent.append(time.process_time() - start)
                faults.append({(f.kind, f.message) for f in result.faults})
                memory.append([s.bytes.copy() for s in storages])
                for storage, (data, valid) in zip(storages, before, strict=True):
                    storage.bytes[...] = data
                    storage.valid = None if valid is None else valid.copy()
        except XttirError as error:
            for storage, (data, valid) in zip(storages, before, strict=True):
                storage.bytes[...] = data
                storage.valid = valid
            return type(error).__name__, str(error)
        spent = [min(spent[::2]), min(spent[1::2])]
        self.seconds = [a + b for a, b in zip(self.seconds, spent, strict=True)]
        ratio = f"{spent[0]:.2f} s, {spent[1]:.2f} s ({spent[1] / max(spent[0], 1e-9):.2f})"
        new = faults[1] - faults[0]
        if new:
            return "faults", f"{ratio} " + "; ".join(f"{k}: {text}" for k, text in sorted(new))
        for n, (a, b) in enumerate(zip(*memory[:2], strict=True)):
            if not np.array_equal(a, b):
                return "values", f"{ratio} storage {n}: {(a != b).sum()} of {a.size} bytes"
        return "equal", ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cc", type=int, default=100)
    parser.add_argument("--batch", type=int, default=0, help="programs in a batch (0: as usual)")
    parser.add_argument("--repeat", type=int, default=1, help="runs; the fastest counts")
    parser.add_argument("--checks", default="all")
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    policy = replace(RunPolicy(), cc=options.cc, batch=options.batch).with_checks(options.checks)
    judge = Judge(policy, options.repeat)
    sys.argv = [options.script, *options.args]
    with xttir.sanitize(policy=policy) as session:
        session.before = judge
        try:
            runpy.run_path(options.script, run_name="__main__")
        except SystemExit:
            pass
    print(", ".join(f"{count} {kind}" for kind, count in judge.tally.most_common()))
    first, second = judge.seconds
    print(f"CPU time: TTIR {first:.2f} s, TTGIR {second:.2f} s, ratio {second / max(first, 1e-9):.2f}")
    return 0 if set(judge.tally) <= {"equal"} else 1


if __name__ == "__main__":
    raise SystemExit(main())
