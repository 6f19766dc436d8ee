"""`python -m conformance.every_size`: kernels of liger-kernel and fla-core, proved for every size.

Runs the case tables of this folder, captures the first launch of every kernel and set of constants,
and asks `xttir.analyses.sizes` about it. `--collect DIR` only writes the launches down, `--from
DIR` asks about what was written. Seconds are CPU seconds: the table does not depend on the load.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pickle
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

TABLES = (
    "liger_layers",
    "liger_losses",
    "fla_modules",
    "fla_attention",
    "fla_recurrent",
)


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when no kernel is refuted, 1 when one is."""
    parser = argparse.ArgumentParser(prog="python -m conformance.every_size")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--op", default="", help="only operations whose name has this in it")
    parser.add_argument("--seconds", type=float, default=20, help="CPU time for a kernel (20)")
    parser.add_argument("--results", type=Path, help="append a line of JSON a kernel; goes on")
    parser.add_argument("--collect", type=Path, help="only write the launches into this folder")
    parser.add_argument("--from", type=Path, dest="folder", help="launches written by --collect")
    parser.add_argument("--no-run", action="store_true", help="kernels do not run: quicker")
    args = parser.parse_args(arguments)
    verdicts: dict[str, Counter[str]] = {}
    done: set[str] = set()
    if args.results and args.results.exists():
        for line in args.results.read_text().splitlines():
            known = json.loads(line)
            done.add(known["kernel"])
            _count(verdicts, known["kernel"], known["verdict"])
    for name, launch in _launches(args):
        if args.op not in name.partition("/")[2].partition("/")[0] or name in done:
            continue
        if args.collect:
            _write(args.collect, name, launch)
            print(name, flush=True)
            continue
        outcome = _judge(launch, args.seconds)
        _count(verdicts, name, outcome["verdict"])
        print(f"{outcome['verdict']:12} {outcome['seconds']:6.1f} s  {name}", flush=True)
        for line in outcome["notes"]:
            print(f"             {line}")
        if args.results:
            with args.results.open("a") as file:
                file.write(json.dumps({"kernel": name, **outcome}) + "\n")
    totals = sum(verdicts.values(), Counter[str]())
    whole = sum(set(v) == {"verified"} for v in verdicts.values())
    print(f"{dict(totals)} of {totals.total()} variants; "
          f"{whole} of {len(verdicts)} kernels verified in all of theirs")  # fmt: skip
    return int(totals["fault"] > 0)


def _count(verdicts: dict[str, Counter[str]], name: str, verdict: str) -> None:
    verdicts.setdefault(name.rpartition(": ")[2], Counter())[verdict] += 1


def _launches(args: Any) -> Iterator[tuple[str, Any]]:
    """Names and launches."""
    if args.folder:
        for path in sorted(args.folder.glob("*.launch")):
            name, launch = _read(path)
            if any(name.startswith(f"{table}/") for table in args.tables.split(",")):
                yield name, launch
        return
    for table in args.tables.split(","):
        yield from _table(table, args.no_run, args.op)


def _table(table: str, no_run: bool, wanted: str) -> Iterator[tuple[str, Any]]:
    from conformance import compare
    from conformance.worker import limit_autotuning
    from xttir import session as sessions
    from xttir.interp.launch import LaunchResult
    from xttir.policy import RunPolicy
    from xttir.tools.collect import open_session

    before = set(compare.TABLE)
    importlib.import_module(f"conformance.{table}")
    seen: set[tuple[str, str]] = set()
    captured: list[Any] = []

    def capture(launch: Any) -> None:
        key = (launch.kernel, str(sorted(launch.constants.items(), key=str)))
        if key not in seen:
            seen.add(key)
            captured.append(_frozen(launch))

    if no_run:
        sessions._run_launch = lambda launch, policy: LaunchResult()
    with open_session(replace(RunPolicy(), cc=90).with_checks("none")) as session:
        session.before = capture
        limit_autotuning(1)
        for operation in [o for o in compare.TABLE if o not in before and wanted in o]:
            for case in compare.TABLE[operation]():
                try:
                    compare.exercise(case)
                except Exception as error:
                    if not no_run:
                        print(f"{operation} {case.name}: {type(error).__name__}: {error}",
                              file=sys.stderr)  # fmt: skip
                for launch in captured:
                    yield f"{table}/{operation}/{case.name}: {launch.kernel}", launch
                captured.clear()


def _frozen(launch: Any) -> Any:
    """The launch with memory of its own: integer data as it is, nothing else is looked at."""
    from xttir.interp.launch import DescriptorArg, Storage, TensorArg

    storages: dict[int, Storage] = {}

    def tensor(t: Any) -> Any:
        if id(t.storage) not in storages:
            data = t.storage.bytes
            data = data.copy() if t.dtype.kind in "iub" else np.zeros(len(data), np.uint8)
            storages[id(t.storage)] = Storage(data, t.storage.address)
        return replace(t, storage=storages[id(t.storage)])

    arguments: list[Any] = []
    for a in launch.arguments:
        if isinstance(a, DescriptorArg):
            a = replace(a, tensor=tensor(a.tensor))
        arguments.append(tensor(a) if isinstance(a, TensorArg) else a)
    return replace(launch, arguments=tuple(arguments), memory=None)


def _write(folder: Path, name: str, launch: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    constants = {k: v for k, v in launch.constants.items() if isinstance(v, int | float | str)}
    fields = {
        "kernel": launch.kernel,
        "grid": launch.grid,
        "arguments": launch.arguments,
        "num_warps": launch.num_warps,
        "constants": constants,
        "site": launch.site,
    }
    number = len(list(folder.glob("*.launch")))
    data = pickle.dumps((name, launch.compiled.kernel.ir_text, fields))
    (folder / f"{number:04}.launch").write_bytes(data)


def _read(path: Path) -> tuple[str, Any]:
    from xttir.frontends.mlir import parse_module
    from xttir.interp.launch import Launch

    name, text, fields = pickle.loads(path.read_bytes())
    module = parse_module(text, f"{path.stem}.mlir", verify=False)
    return name, Launch(module, fields.pop("kernel"), fields.pop("grid"), **fields)


def _judge(launch: Any, seconds: float) -> dict[str, Any]:
    from xttir.analyses.sizes import deadline
    from xttir.analyses.sizes.prove import contract_of, prove
    from xttir.diagnostics import Unsupported

    began = time.process_time()
    try:
        with deadline.cpu_time():
            found = prove(contract_of(launch), seconds)
        notes = [f"{f.kind}: {f.message}: {f.notes[-1]}" for f in found.faults]
        notes += [f"{place}: {why}" for place, why in found.open]
        if found.only:
            notes.append("only: " + "; ".join(found.only))
        verdict = str(found.verdict)
    except Unsupported as error:
        verdict, notes = "unsupported", [str(error)]
    except Exception as error:
        verdict, notes = "crash", [f"{type(error).__name__}: {error}"]
    return {"verdict": verdict, "seconds": time.process_time() - began, "notes": notes}


if __name__ == "__main__":
    sys.exit(main())
