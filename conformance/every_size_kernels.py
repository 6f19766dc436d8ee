"""`python -m conformance.every_size_kernels`: small kernels asked about every size.

Ten kernels as people write them, and correct and faulty twins of many kinds, from the tables of
`tests/analyses/sizes`. Prints the verdicts, the time each took, and how many are right: a correct
kernel may not be refuted, a faulty one may not be proved.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from collections import Counter
from typing import Any


def tables() -> dict[str, Any]:
    """The tables of the tests by name."""
    import tests.analyses.sizes as package
    from tests.analyses.sizes.capture import Table

    found: dict[str, Any] = {}
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("kernels_"):
            continue
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        for value in vars(loaded).values():
            if isinstance(value, Table):
                found[module.name.removeprefix("kernels_")] = value
    return found


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when no verdict is wrong, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m conformance.every_size_kernels")
    parser.add_argument("--tables", default="", help="only these (named, ...), comma-separated")
    parser.add_argument("--match", default="", help="only kernels whose name has this in it")
    parser.add_argument("--seconds", type=float, default=20, help="CPU time for a kernel (20)")
    parser.add_argument("-v", action="store_true", help="print contracts")
    args = parser.parse_args(arguments)
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    wanted = [t for t in args.tables.split(",") if t]
    for name, table in tables().items():
        if wanted and name not in wanted:
            continue
        for case in table.cases.values():
            if args.match not in case.name:
                continue
            word, notes = _judge(case, args.seconds, args.v)
            counts[word] += 1
            print(f"{word:16} {notes[0]}  {name}/{case.name}", flush=True)
            for note in notes[1:]:
                print(f"                 {note}")
            if word.isupper():
                wrong.append(f"{name}/{case.name}")
    print(f"{dict(counts)}; wrong: {wrong}")
    return int(bool(wrong))


def _judge(case: Any, seconds: float, verbose: bool) -> tuple[str, list[str]]:
    """A word for the outcome (capital letters: wrong), and what there is to say."""
    from tests.analyses.sizes.capture import decide
    from xttir.analyses.sizes import deadline
    from xttir.diagnostics import Verdict

    wall, cpu = time.monotonic(), time.process_time()
    with deadline.cpu_time():
        found = decide(case, seconds)
    taken = f"{time.process_time() - cpu:5.1f} s CPU, {time.monotonic() - wall:5.1f} s"
    notes = [taken]
    notes += [f"{f.kind}: {f.message}; {f.notes[-1]}" for f in found.faults]
    notes += [f"{place.line}:{place.column}: {why}" for place, why in found.open]
    if found.only:
        notes.append("only: " + "; ".join(found.only))
    if verbose:
        notes.append("contract: " + "; ".join(found.contract))
    kinds = {f.kind for f in found.faults}
    if found.verdict is Verdict.UNKNOWN:
        return ("unknown, as said" if case.unknown else "unknown"), notes
    if found.verdict is Verdict.VERIFIED:
        return ("WRONGLY PROVED" if case.kinds else "proved"), notes
    if not case.kinds:
        return "WRONGLY REFUTED", notes
    return ("refuted" if kinds & case.kinds else "WRONG KIND"), notes


if __name__ == "__main__":
    sys.exit(main())
