"""Kernels with a launch description run on numbers along many schedules, against their references.

python -m conformance.schedules --cases FOLDER [--only ws_sm90] [--random 20]

FOLDER holds `NAME/kernel.ptx`, `NAME/launch.json` and `NAME/expected.json`. A correct kernel must
give its reference in every schedule; for a faulty one the schedules of `xttir verify --witness`
are replayed too, and what was seen (a wrong value, a hang, a fault) is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from conformance import results
from xttir.diagnostics import XttirError
from xttir.frontends.launch_description import compare, load, materialise, reference
from xttir.frontends.ptx import parse_ptx
from xttir.interp.ptx.running import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.schedules")
    parser.add_argument("--cases", type=Path, required=True, help="folder of the cases")
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--random", type=int, default=20, help="random schedules a case (20)")
    parser.add_argument("--results", type=Path, default=results.default_path("schedules"))
    args = parser.parse_args()
    wanted = [w for w in args.only.split(",") if w]
    for name, ptx, launch, faulty in cases(args.cases):
        if wanted and not any(w in name for w in wanted):
            continue
        start = time.process_time()
        entry = {"name": name} | check(ptx, launch, faulty, args.random)
        entry["seconds"] = round(time.process_time() - start, 2)
        results.append(args.results, entry)
        print(f"{entry['status']:8} {name:45} {entry['seconds']:6.1f} s  {entry['detail']}")
    known = list(results.read(args.results, ("name",)).values())
    good = sum(e["status"] in ("right", "shown") for e in known)
    print(f"\n{good} of {len(known)}: {results.counts(known)}")
    return int(any(e["status"] in ("wrong", "error") for e in known))


def cases(folder: Path) -> Iterator[tuple[str, Path, Path, bool]]:
    """(name, PTX, launch description, whether it is faulty)."""
    for expected in sorted(folder.glob("*/expected.json")):
        told, here = json.loads(expected.read_text()), expected.parent
        if "verdict" in told:
            yield here.name, here / "kernel.ptx", here / "launch.json", told["verdict"] == "fault"
            continue
        for variant, what in told.items():
            launch = here / f"{variant}.launch.json"
            if launch.exists() and isinstance(what, dict):
                faulty = what["verdict"] == "fault"
                yield f"{here.name}/{variant}", here / f"{variant}.ptx", launch, faulty


def check(ptx: Path, launch: Path, faulty: bool, random: int) -> results.Entry:
    """`right`: every schedule gives the reference; a faulty kernel is `shown` or `hidden`."""
    try:
        module, description = parse_ptx(ptx.read_text(), str(ptx)), load(launch)
        names = ["first", *(f"random:{seed}" for seed in range(random)), "adversarial"]
        seen: list[str] = []
        for seed, schedule in enumerate(names):
            data = materialise(description, seed)
            wanted = reference(description, data)
            ended = run(module, description, schedule, data, seed)
            wrong = [f"{f.kind}: {f.message}" for f in ended.faults if f.policy != "strict"]
            wrong += [
                f"{d.wrong} of {d.size} elements of {d.name}, {d.value:g} for {d.expected:g}"
                for d in compare(description, ended.tensors, wanted)
                if not d.ok
            ]
            if wrong:
                seen.append(f"{schedule}: {wrong[0]}")
    except XttirError as error:
        return {"status": "error", "detail": str(error)[:200]}
    detail = f"{len(seen)} of {len(names)} schedules show it: {seen[0]}" if seen else ""
    if faulty:
        return {"status": "shown" if seen else "hidden", "detail": detail[:200]}
    return {"status": "wrong" if seen else "right", "detail": detail[:200]}


if __name__ == "__main__":
    sys.exit(main())
