"""Run cases of one table under the sanitizer, writing a line of JSON for each.

    python -m conformance.worker TABLE OPERATION RESULTS [CASE]

TABLE is a module of this folder that registers cases (`liger_losses`), RESULTS the file to append
to. A case that raises does not stop the others. Settings come from the environment:
`CONFORMANCE_CC`: compute capability (90). `CONFORMANCE_CONFIGS`: configurations that autotuning
tries (2; 0 for all). `CONFORMANCE_ENGINE=none` leaves the launches to whoever runs this script,
and `CONFORMANCE_DEVICE` names the device: so cases can be tried on other ways to execute Triton.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def watched() -> Iterator[Callable[[], dict[str, Any]]]:
    """A session, and a function that tells what it found since the last call."""
    if os.environ.get("CONFORMANCE_ENGINE", "xttir") != "xttir":
        yield dict
        return
    from dataclasses import replace

    from xttir.policy import RunPolicy
    from xttir.tools.collect import Collector, open_session

    policy = replace(RunPolicy.from_environment(), cc=int(os.environ.get("CONFORMANCE_CC", "90")))
    with open_session(policy) as session:
        collector = Collector(session)

        def take() -> dict[str, Any]:
            report = collector.take()
            return {
                "launches": report.launches,
                "faults": [describe(fault) for fault in report.errors],
                "warnings": [describe(f) for f in report.faults if f not in report.errors],
                "unsupported": [f"{p.what} at {p.location}" for p in report.unsupported],
                "not_checked": [str(entry) for entry in report.not_checked()],
            }

        yield take


def limit_autotuning(count: int) -> None:
    """Keep `count` configurations of every autotuner, since each costs a compilation.

    Those with the fewest stages, which ask for the least shared memory.
    """
    from triton.runtime.autotuner import Autotuner

    prune = Autotuner.prune_configs

    def fewer(self: Any, *args: Any) -> Any:
        return sorted(prune(self, *args), key=lambda config: config.num_stages)[:count]

    if count:
        Autotuner.prune_configs = fewer


def describe(fault: Any) -> str:
    """A fault on one line: kind, kernel, place, message."""
    place = fault.locations[0] if fault.locations else None
    where = f"{os.path.basename(place.file)}:{place.line}" if place else "?"
    return f"{fault.kind} in {fault.kernel} at {where}: {fault.message} (x{fault.count})"


def work(table: str, operation: str, results: str, only: str = "") -> None:
    import torch

    from conformance import compare

    compare.DEVICE = os.environ.get("CONFORMANCE_DEVICE", "cuda")
    # CPU threads spin; the tensors here are small.
    torch.set_num_threads(1)
    with watched() as take:
        limit_autotuning(int(os.environ.get("CONFORMANCE_CONFIGS", "2")))
        importlib.import_module(f"conformance.{table}")
        torch.manual_seed(0)
        for case in compare.TABLE[operation]():
            if only and case.name != only:
                continue
            started = time.perf_counter()
            status, detail = attempt(case)
            found = take()
            if found.get("unsupported"):
                status, detail = "unsupported", found["unsupported"][0]
            elif found.get("faults") and status != "differ":
                status = "fault"
            line = {"op": operation, "case": case.name, "status": status, "detail": detail}
            line |= {"seconds": round(time.perf_counter() - started, 2)} | found
            with open(results, "a") as out:
                out.write(json.dumps(line) + "\n")


def attempt(case: Any) -> tuple[str, str]:
    """Status (agree, differ, unsupported, error) and what there is to say about it."""
    from conformance import compare

    try:
        return "agree", compare.run(case)
    except compare.Different as error:
        return "differ", str(error)
    except Exception as error:
        kind = "unsupported" if type(error).__name__ == "Unsupported" else "error"
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        return kind, f"{type(error).__name__}: {error} [{place}]"


if __name__ == "__main__":
    work(*sys.argv[1:])
