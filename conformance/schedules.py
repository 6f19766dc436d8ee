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
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from conformance import results
from xttir.analyses.launches import verify_launch
from xttir.analyses.witness import schedule_in
from xttir.diagnostics import XttirError
from xttir.frontends.launch_description import (
    LaunchDescription,
    compare,
    load,
    materialise,
    reference,
)
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
    for name, ptx, launch, policy in cases(args.cases):
        if wanted and not any(w in name for w in wanted):
            continue
        start = time.process_time()
        entry = {"name": name} | check(ptx, launch, args.random, policy)
        entry["seconds"] = round(time.process_time() - start, 2)
        results.append(args.results, entry)
        print(f"{entry['status']:8} {name:45} {entry['seconds']:6.1f} s  {entry['detail']}")
    known = list(results.read(args.results, ("name",)).values())
    good = sum(e["status"] in ("right", "shown") for e in known)
    print(f"\n{good} of {len(known)}: {results.counts(known)}")
    return int(any(e["status"] in ("wrong", "error") for e in known))


def cases(folder: Path) -> Iterator[tuple[str, Path, Path, str]]:
    """(name, PTX, launch description, policy of its fault or "" when it is right)."""
    for expected in sorted(folder.glob("*/expected.json")):
        told, here = json.loads(expected.read_text()), expected.parent
        if "verdict" in told:
            yield here.name, here / "kernel.ptx", here / "launch.json", _policy(told)
            continue
        for variant, what in told.items():
            launch = here / f"{variant}.launch.json"
            if launch.exists() and isinstance(what, dict):
                yield f"{here.name}/{variant}", here / f"{variant}.ptx", launch, _policy(what)


def _policy(told: dict[str, Any]) -> str:
    return told.get("policy", "any") if told["verdict"] == "fault" else ""


def check(ptx: Path, launch: Path, random: int, policy: str) -> results.Entry:
    """`right`: every schedule gives the reference; a faulty kernel (`policy` "any" or "strict") is
    `shown` or `hidden`. What only the letter forbids counts where it is what is wrong."""
    faulty, strict = policy != "", policy == "strict"
    try:
        module, description = parse_ptx(ptx.read_text(), str(ptx)), load(launch)
        names = ["first", *(f"random:{seed}" for seed in range(random)), "adversarial"]
        schedules: dict[str, str | dict[str, Any]] = {name: name for name in names}
        if faulty:
            schedules |= witnesses(module, description)
        seen: dict[str, str] = {}
        for seed, (name, schedule) in enumerate(schedules.items()):
            data = materialise(description, seed)
            wanted = reference(description, data)
            ended = run(module, description, schedule, data, seed)
            wrong = [
                f"{d.wrong} of {d.size} elements of {d.name}, {d.value:g} for {d.expected:g}"
                for d in compare(description, ended.tensors, wanted)
                if not d.ok
            ]
            wrong += [
                f"{f.kind}: {f.message}" for f in ended.faults if strict or f.policy != "strict"
            ]
            if wrong:
                seen[name] = wrong[0]
    except XttirError as error:
        return {"status": "error", "detail": str(error)[:200]}
    detail = ""
    if seen:
        kinds = {n.partition(":")[0] for n in schedules}
        counts = (
            f"{k} {sum(s.startswith(k) for s in seen)}/{sum(n.startswith(k) for n in schedules)}"
            for k in sorted(kinds)
        )
        name = min(seen, key=lambda n: (": " in seen[n], n))
        detail = f"{', '.join(counts)}; {name}: {seen[name]}"
    if faulty:
        return {"status": "shown" if seen else "hidden", "detail": detail[:200]}
    return {"status": "wrong" if seen else "right", "detail": detail[:200]}


def witnesses(module: ModuleOp, description: LaunchDescription) -> dict[str, dict[str, Any]]:
    """The schedules of the faults that the analyses find, by a name."""
    faults = verify_launch(module, description)[1].faults
    found = {}
    for number, fault in enumerate(faults):
        schedule = schedule_in(fault.witness)
        if schedule:
            found[f"witness:{number} ({fault.kind})"] = schedule
    return found


if __name__ == "__main__":
    sys.exit(main())
