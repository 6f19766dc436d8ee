"""The PTX of the kernels that a script launches: verified, and run against TTIR.

python -m conformance.ptx_scripts --cc 100 [--schedules 3] SCRIPT [ARGS]
python -m conformance.ptx_scripts --kernels FOLDER [--only attention]

Every distinct launch is verified for every schedule; then the PTX runs from the memory that the
launch finds, along several schedules, and what it leaves must be what TTIR leaves. Bits are
counted; values may differ as far as the order of a sum lets them. The second form goes through
matrix products and attention of a folder (tests/data/scripts) for compute capability 8.0, 9.0 and
10.0.
"""

from __future__ import annotations

import argparse
import contextlib
import runpy
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import xttir
from conformance import results
from conformance.ttgir_scripts import storages_of
from xttir.analyses.launches import verify_launch
from xttir.diagnostics import Unsupported, Verdict, XttirError
from xttir.frontends.launch_description import (
    LaunchDescription,
    PointerParam,
    TensorMapParam,
    TensorSpec,
)
from xttir.frontends.launch_description.match import match
from xttir.frontends.ptx import parse_ptx
from xttir.frontends.triton.describe import describe, device_code
from xttir.interp.executor import run_launch
from xttir.interp.launch import DescriptorArg, Launch, Storage, TensorArg
from xttir.interp.ptx import run
from xttir.policy import RunPolicy

KERNELS = (
    ("matmul_pointer.py", "512"),
    ("matmul_tma.py", "512"),
    ("matmul_device_desc.py", "512"),
    ("matmul_persistent.py", "512"),
    ("matmul_persistent.py", "512", "ws"),
    ("attention.py", "512"),
    ("attention.py", "512", "causal"),
    ("attention.py", "512", "ws"),
    ("attention.py", "512", "causal", "ws"),
)
CAPABILITIES = (80, 90, 100)
TOLERANCE = 2e-3
"""Of the largest value of a tensor: twice the rounding of a half."""


class Judge:
    """Sees every launch before it runs; keeps one entry for each distinct one."""

    def __init__(self, policy: RunPolicy, schedules: list[str]):
        self.policy = policy
        self.schedules = schedules
        self.seen: set[str] = set()
        self.entries: list[results.Entry] = []

    def __call__(self, launch: Launch) -> None:
        code = device_code(launch)
        key = f"{code.key} {launch.grid} {[getattr(a, 'value', None) for a in launch.arguments]}"
        if key in self.seen:
            return
        self.seen.add(key)
        entry: results.Entry = {"name": launch.kernel, "arch": code.arch}
        try:
            description = describe(launch, code)
            module = parse_ptx(code.ptx, f"{code.name}.ptx")
            description = match(description, module)
            start = time.process_time()
            _, report = verify_launch(module, description)
            entry["verify"] = round(time.process_time() - start, 2)
            faults = [f"{f.kind}: {f.message}" for f in report.faults]
            entry |= {"status": str(report.verdict), "detail": "; ".join(faults + report.unknown)}
            if report.verdict is Verdict.VERIFIED:
                start = time.process_time()
                entry |= self.values(launch, module, description)
                entry["run"] = round(time.process_time() - start, 2)
        except XttirError as error:
            kind = "unsupported" if isinstance(error, Unsupported) else "error"
            entry |= {"status": kind, "detail": str(error)[:300]}
        self.entries.append(entry)
        print(f"  {entry}", flush=True)

    def values(self, launch: Launch, module: Any, description: LaunchDescription) -> results.Entry:
        """Whether TTIR and PTX leave the same in memory."""
        before = [(s, s.bytes.copy(), _copied(s.valid)) for s in storages_of(launch)]
        names = _storages(launch, description)
        data = {
            name: _allocation(spec, names.get(name)) for name, spec in description.tensors.items()
        }
        try:
            run_launch(launch, self.policy)
            want = {n: _allocation(description.tensors[n], s) for n, s in names.items()}
        finally:
            for storage, held, valid in before:
                storage.bytes[...] = held
                storage.valid = _copied(valid)
        worst = Gap("", 0, 0, 0.0)
        for schedule in self.schedules:
            after = run(module, description, schedule, data)
            for fault in after.faults:
                if fault.policy != "strict":
                    why = f"{schedule}: {fault.kind}: {fault.message}"
                    return {"status": "faulty", "detail": why}
            for name, expected in want.items():
                have = after.tensors[name].view(expected.dtype)
                gap = difference(name, have, expected)
                worst = max(worst, gap, key=lambda g: g.error)
                if gap.error > TOLERANCE:
                    return {"status": "values", "detail": f"{schedule}: {gap}"}
        return {"status": "equal", "detail": str(worst)}


@dataclass(frozen=True)
class Gap:
    """How a tensor differs: elements of which the bits differ, largest difference over the
    largest value."""

    name: str
    elements: int
    size: int
    error: float

    def __str__(self) -> str:
        if not self.elements:
            return "bit for bit"
        return f"{self.name}: {self.elements} of {self.size} differ, by up to {self.error:.1e}"


def difference(name: str, have: np.ndarray, want: np.ndarray) -> Gap:
    bits = have.view(f"u{have.itemsize}") != want.view(f"u{want.itemsize}")
    a, b = have.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gaps = np.where(bits & ~(np.isnan(a) & np.isnan(b)), np.abs(a - b), 0.0)
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size and finite.max() else 1.0
    error = float(np.where(np.isnan(gaps), np.inf, gaps).max()) if gaps.size else 0.0
    return Gap(name, int(bits.sum()), bits.size, error / scale)


def _storages(launch: Launch, description: LaunchDescription) -> dict[str, Storage]:
    """Storage by the name of its tensor: host descriptors are followed by shape and strides."""
    found: dict[str, Storage] = {}
    for argument, param in zip(launch.arguments, description.params, strict=False):
        tensor = argument.tensor if isinstance(argument, DescriptorArg) else argument
        if isinstance(tensor, TensorArg):
            assert isinstance(param, PointerParam | TensorMapParam)
            assert param.tensor is not None
            found[param.tensor] = tensor.storage
    return found


def _allocation(spec: TensorSpec, storage: Storage | None) -> np.ndarray:
    """The tensor's allocation with what `storage` holds now; zeros for scratch memory."""
    flat = np.zeros(spec.size, np.uint8)
    if storage is not None:
        held = storage.bytes[: flat.size]
        flat[: held.size] = held
    return flat.view(spec.dtype.numpy)


def _copied(valid: np.ndarray | None) -> np.ndarray | None:
    return None if valid is None else valid.copy()


def judge_script(script: str, args: list[str], cc: int, random: int) -> list[results.Entry]:
    policy = replace(RunPolicy(), cc=cc).with_checks("none")
    judge = Judge(policy, ["first", "adversarial", *(f"random:{n}" for n in range(random))])
    sys.argv = [script, *args]
    with xttir.sanitize(policy=policy) as session:
        session.before = judge
        with contextlib.suppress(SystemExit):
            runpy.run_path(script, run_name="__main__")
    return judge.entries


def judge_all(folder: Path, only: str, options: list[str], path: Path) -> int:
    """Each kernel and compute capability in a process of its own."""
    found: list[results.Entry] = []
    for script, *args in KERNELS:
        for cc in CAPABILITIES:
            name = f"{' '.join([script, *args])} at {cc}"
            if only not in name:
                continue
            command = [sys.executable, "-m", "conformance.ptx_scripts", "--cc", str(cc), *options]
            command += ["--results", str(path), "--tag", name, str(folder / script), *args]
            subprocess.run(command, check=False)
    known = results.read(path, ("tag", "name"))
    found = [entry for (tag, _), entry in known.items() if only in tag]
    print(f"\n{len(found)} kernels: {results.counts(found)}")
    return int(any(entry["status"] != "equal" for entry in found))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cc", type=int, default=100)
    parser.add_argument("--schedules", type=int, default=1, help="random ones, besides two others")
    parser.add_argument("--kernels", type=Path, help="folder of the scripts to go through")
    parser.add_argument("--only", default="", help="part of a name, with --kernels")
    parser.add_argument("--tag", default="", help="kept with each result")
    parser.add_argument("--results", type=Path, default=results.default_path("ptx_scripts"))
    parser.add_argument("script", nargs="?")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.kernels is not None:
        more = ["--schedules", str(options.schedules)]
        return judge_all(options.kernels, options.only, more, options.results)
    if options.script is None:
        parser.error("a script, or --kernels FOLDER")
    print(options.tag or f"{options.script} {' '.join(options.args)} at {options.cc}", flush=True)
    entries = judge_script(options.script, options.args, options.cc, options.schedules)
    for entry in entries:
        results.append(options.results, entry | {"tag": options.tag or options.script})
    print(f"{len(entries)} launches: {results.counts(entries)}")
    return int(not entries or any(entry["status"] != "equal" for entry in entries))


if __name__ == "__main__":
    raise SystemExit(main())
