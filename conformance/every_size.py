"""`python -m conformance.every_size`: kernels of liger-kernel and fla-core, proved for every size.

Runs the case tables of this folder, captures the first launch of every kernel that a case makes,
and asks `xttir.analyses.sizes` about it. Prints a line per kernel and the counts.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

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
    parser.add_argument("--seconds", type=float, default=20, help="time for a kernel (20)")
    parser.add_argument("--results", type=Path, help="append a line of JSON for each kernel")
    args = parser.parse_args(arguments)
    totals: Counter[str] = Counter()
    for table in args.tables.split(","):
        for name, outcome in _table(table, args.op, args.seconds):
            totals[outcome["verdict"]] += 1
            print(f"{outcome['verdict']:12} {outcome['seconds']:6.1f} s  {name}", flush=True)
            for line in outcome["notes"]:
                print(f"             {line}")
            if args.results:
                with args.results.open("a") as file:
                    file.write(json.dumps({"kernel": name, **outcome}) + "\n")
    print(dict(totals))
    return int(totals["fault"] > 0)


def _table(table: str, wanted: str, seconds: float) -> Any:
    from conformance import compare
    from conformance.worker import limit_autotuning
    from xttir.analyses.sizes.prove import contract_of
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
            try:
                captured.append((launch.kernel, contract_of(launch)))
            except Exception as error:
                captured.append((launch.kernel, error))

    with open_session(replace(RunPolicy(), cc=90).with_checks("none")) as session:
        session.before = capture
        limit_autotuning(1)
        for operation in [op for op in compare.TABLE if op not in before and wanted in op]:
            for case in compare.TABLE[operation]():
                try:
                    compare.run(case)
                except Exception as error:
                    print(f"{operation} {case.name}: {type(error).__name__}: {error}",
                          file=sys.stderr)  # fmt: skip
                for kernel, contract in captured:
                    yield f"{operation}/{case.name}: {kernel}", _judge(contract, seconds)
                captured.clear()


def _judge(contract: Any, seconds: float) -> dict[str, Any]:
    from xttir.analyses.sizes.prove import prove
    from xttir.diagnostics import Unsupported

    began = time.monotonic()
    try:
        if isinstance(contract, Exception):
            raise contract
        found = prove(contract, seconds)
        notes = [f"{f.kind}: {f.message}: {f.notes[-1]}" for f in found.faults]
        notes += [f"{place}: {why}" for place, why in found.open]
        verdict = str(found.verdict)
    except Unsupported as error:
        verdict, notes = "unsupported", [str(error)]
    except Exception as error:
        verdict, notes = "crash", [f"{type(error).__name__}: {error}"]
    return {"verdict": verdict, "seconds": time.monotonic() - began, "notes": notes}


if __name__ == "__main__":
    sys.exit(main())
