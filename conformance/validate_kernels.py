"""`xttir validate` on every kernel that the operations of liger-kernel and fla-core and Triton's
tutorials launch, with the tensors and grid of a real launch.

    python -m conformance.validate_kernels [--cc 80,90,100] [--tables liger_losses,...] [--op NAME]
        [--source TRITON_CHECKOUT] [--inputs 4] [--per-kernel 0] [--seconds 60] [--total 3600]
        [--report]

A kernel is a distinct TTIR module with distinct compiler options. Operations run one after the
other, each in a fork of a process that has imported everything; each kernel is validated in a fork
of that, from the memory its launch found, through all stages up to the final TTGIR. Results are
lines of JSON, so that a run can stop and go on: what has a result is not done again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import math
import multiprocessing
import os
import pkgutil
import re
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conformance import results
from conformance.ttgir_modules import smaller
from conformance.works import operation, tutorial

TABLES = ("liger_losses", "liger_layers", "fla_recurrent", "fla_attention", "fla_modules")
TUTORIALS = tuple(f"tutorial {n:02d}" for n in range(1, 10))

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "ir_override")
"""Compiler options that decide what is made of a TTIR module."""


@dataclass(frozen=True)
class Plan:
    """What one process does. `inputs`: edge cases a kernel. `per_kernel`: specialisations of one
    function, 0 for all. `seconds`: of the processor, for a kernel. `programs`: of a grid at most.
    `until`: the time (monotonic) after which nothing new begins."""

    cc: int
    inputs: int
    per_kernel: int
    seconds: int
    operation_seconds: float
    programs: int
    configs: int
    until: float
    path: Path
    source: Path | None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.validate_kernels")
    parser.add_argument("--cc", default="80,90,100", help="compute capabilities (80,90,100)")
    parser.add_argument("--tables", default=",".join(TABLES), help="of this folder; '' for none")
    parser.add_argument("--source", type=Path, help="a checkout of Triton, for its tutorials")
    parser.add_argument("--op", default="", help="only operations whose name matches")
    parser.add_argument("--inputs", type=int, default=4, help="edge cases a kernel (4)")
    parser.add_argument("--programs", type=int, default=64, help="programs of a grid at most (64)")
    parser.add_argument("--configs", type=int, default=1, help="of an autotuner; 0 for all (1)")
    parser.add_argument("--per-kernel", type=int, default=0, help="specialisations; 0 for all (0)")
    parser.add_argument("--seconds", type=int, default=60, help="of CPU time for a kernel (60)")
    parser.add_argument("--operation-seconds", type=float, default=3600, help="(3600)")
    parser.add_argument("--total", type=float, default=1e9, help="seconds after which to stop")
    parser.add_argument("--results", type=Path, default=results.default_path("validate"))
    parser.add_argument("--rerun", default="", help="statuses to do again: fault,unsupported,...")
    parser.add_argument("--report", action="store_true", help="run nothing, print what is known")
    args = parser.parse_args()
    if args.rerun:
        forget(args.results, set(args.rerun.split(",")), args.cc.split(","), args.op)
    if not args.report:
        until = time.monotonic() + args.total
        for cc in args.cc.split(","):
            plan = Plan(
                int(cc), args.inputs, args.per_kernel, args.seconds, args.operation_seconds,
                args.programs, args.configs, until, args.results.resolve(), args.source,
            )  # fmt: skip
            tables = [t for t in args.tables.split(",") if t]
            _process(serve, None, plan, tables, args.op)
    entries = results.read_lines(args.results)
    print(summary(entries))
    return int(any(e["status"] not in ("verified", "done") for e in latest(entries)))


def forget(path: Path, statuses: set[str], ccs: list[str], op: str) -> None:
    """Drop results of these statuses, and that their operations are done."""
    entries = results.read_lines(path)
    chosen = [e for e in entries if str(e["cc"]) in ccs and re.search(op, e["op"])]
    drop = {id(e) for e in chosen if e["status"] in statuses}
    again = {(e["cc"], e["op"]) for e in chosen if id(e) in drop}
    keep = [
        e
        for e in entries
        if id(e) not in drop and not ("key" not in e and (e["cc"], e["op"]) in again)
    ]
    path.write_text("".join(json.dumps(e) + "\n" for e in keep))


def _process(target: Callable[..., None], seconds: float | None, *arguments: Any) -> str:
    """Run `target` in a fork; "" when it came to its end, else what became of it."""
    child = multiprocessing.get_context("fork").Process(target=target, args=arguments)
    child.start()
    child.join(seconds)
    if child.exitcode is None:
        child.kill()
        child.join()
        return f"more than {seconds:g} seconds"
    return "" if child.exitcode == 0 else f"exit {child.exitcode}"


def serve(plan: Plan, tables: list[str], wanted: str) -> None:
    """All operations of the tables for one capability, in forks of this process."""
    import torch

    import xttir.analyses.layout_checks
    import xttir.interp
    import xttir.refine
    import xttir.tools.validate
    from conformance import compare
    from conformance.worker import limit_autotuning
    from xttir.policy import RunPolicy
    from xttir.tools.collect import open_session

    torch.set_num_threads(1)
    done = {
        (e["cc"], e["op"])
        for e in latest(results.read_lines(plan.path))
        if "key" not in e and (not e.get("left_out") or 0 < plan.per_kernel <= e["per_kernel"])
    }
    with open_session(replace(RunPolicy(), cc=plan.cc).with_checks("none")) as session:
        limit_autotuning(plan.configs)
        todo: dict[str, Callable[[], None]] = {}
        for table in tables:
            before = set(compare.TABLE)
            importlib.import_module(f"conformance.{table}")
            names = [op for op in compare.TABLE if op not in before]
            todo |= {op: operation(compare.TABLE[op]) for op in names}
        if any(t.startswith("fla") for t in tables):
            importlib.import_module("fla.ops")
        # All that a fork needs, so that none imports it again, perhaps from files that changed.
        for package in (xttir.interp, xttir.refine, xttir.analyses.layout_checks):
            for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
                importlib.import_module(module.name)
        if plan.source is not None:
            folder = plan.source.resolve() / "python" / "tutorials"
            todo |= {name: tutorial(folder, name) for name in TUTORIALS}
        for name, work in todo.items():
            if (plan.cc, name) in done or not re.search(wanted, name):
                continue
            if time.monotonic() > plan.until:
                return
            began = time.monotonic()
            left_out = multiprocessing.get_context("fork").Value("i", 0)
            arguments = (session, plan, name, work, left_out)
            ended = _process(_watched, plan.operation_seconds, *arguments)
            entry = {"cc": plan.cc, "op": name, "status": "stopped" if ended else "done"}
            entry |= {"detail": ended, "seconds": round(time.monotonic() - began, 1)}
            entry |= {"left_out": left_out.value, "per_kernel": plan.per_kernel}  # type: ignore
            if time.monotonic() < plan.until:
                results.append(plan.path, entry)
            print(f"{plan.cc} {name}: {entry['status']} {ended} {entry['seconds']} s", flush=True)


def _watched(session: Any, plan: Plan, name: str, work: Callable[[], None], left_out: Any) -> None:
    """Run `work` and validate each kernel at its first launch that has no result yet. `left_out`
    counts those that `per_kernel` leaves out."""
    held = [e for e in results.read_lines(plan.path) if "key" in e and e["cc"] == plan.cc]
    known = {e["key"] for e in held}
    number = Counter(e["kernel"] for e in held)
    skipped: set[str] = set()

    def before(launch: Any) -> None:
        key = key_of(launch)
        if key in known or time.monotonic() > plan.until:
            return
        if plan.per_kernel and number[launch.kernel] >= plan.per_kernel:
            skipped.add(key)
            left_out.value = len(skipped)
            return
        known.add(key)
        number[launch.kernel] += 1
        began = time.monotonic()
        entry = {"cc": plan.cc, "op": name, "kernel": launch.kernel, "key": key}
        entry |= {"grid": launch.grid}
        receive, send = multiprocessing.get_context("fork").Pipe(duplex=False)
        # The limit is of CPU time; the wall clock only ends what hangs.
        ended = _process(_validate, 30 * plan.seconds, launch, plan, send)
        send.close()
        with contextlib.suppress(EOFError):
            entry |= receive.recv() if receive.poll() else {}
        receive.close()
        if "status" not in entry:
            late = ended.startswith("more") or ended == f"exit {-signal.SIGXCPU}"
            entry |= {"status": "time-out" if late else "crash"}
            entry |= {"detail": ended}
        entry["seconds"] = round(time.monotonic() - began, 2)
        results.append(plan.path, entry)

    session.before = before
    work()


def key_of(launch: Any) -> str:
    """Equal for launches of the same TTIR module compiled with the same options."""
    from xttir.frontends.triton.compile import options_of
    from xttir.refine.stages import plain_text

    kernel = launch.compiled.kernel
    raw = getattr(kernel.metadata, "_raw", kernel.metadata)
    options = options_of(raw)
    chosen = [(name, options.get(name)) for name in OPTIONS]
    text = plain_text(kernel.ir_text) + repr(chosen)
    return hashlib.sha1(text.encode()).hexdigest()[:16]


def _validate(launch: Any, plan: Plan, send: Any) -> None:
    """Validate the kernel of a launch from the memory as it is now, and send what was found."""
    resource.setrlimit(resource.RLIMIT_CPU, (plan.seconds, plan.seconds + 5))
    try:
        began = time.process_time()
        found = validated(launch, plan)
        send.send(found | {"cpu": round(time.process_time() - began, 2)})
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = "; ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in frames[-4:])
        text = f"{type(error).__name__}: {error} [{place}]"
        status = "unsupported" if type(error).__name__ == "Unsupported" else "internal"
        send.send({"status": status, "detail": text})


def validated(launch: Any, plan: Plan) -> dict[str, Any]:
    """The result of a kernel as a line of JSON."""
    from xttir.refine.capture import capture_launch
    from xttir.refine.inputs import case_of
    from xttir.tools.validate import Settings, Validator
    from xttir.tools.validate_report import ValidateReport

    settings = Settings(cc=plan.cc, inputs=plan.inputs)
    report = ValidateReport(policy=settings.policy())
    stages = capture_launch(launch)
    used = launch
    if math.prod(launch.grid) > plan.programs:
        used = replace(launch, grid=smaller(launch.grid, plan.programs))
    run = Validator(settings, report)
    found = run.subject(launch.kernel, "", stages, [case_of(used)]).validation
    if not any(case.user for case in found.cases) and used is not launch:
        # Programs that wait for those that were left out.
        report = ValidateReport(policy=settings.policy())
        run = Validator(settings, report)
        found = run.subject(launch.kernel, "", stages, [case_of(launch)]).validation
    faults = [
        {"kind": str(f.kind), "message": f.message, "notes": list(f.notes), "inputs": f.launch_text}
        for f in report.faults
    ]
    rows = found.rows
    return {
        "status": str(report.verdict),
        "options": {"num_warps": launch.num_warps},
        "stages": len(rows),
        "run": sum(row.status != "unchanged" and row.like < 0 for row in rows),
        "inputs": len(found.cases),
        "launch": any(case.user for case in found.cases),
        "left_out": dict(found.skipped),
        "rounding": [row.stage.name for row in rows if row.status == "rounding"],
        "not_run": [row.stage.name for row in rows if row.status == "not-run"],
        "faults": faults,
        "notes": list(report.notes),
        "unsupported": [p.what for p in report.unsupported],
    }


def latest(entries: list[results.Entry]) -> list[results.Entry]:
    """The last entry of every kernel and of every operation."""
    return list({(e["cc"], e.get("key") or e["op"]): e for e in entries}.values())


def summary(entries: list[results.Entry]) -> str:
    """A table by capability, then what is not verified."""
    entries = latest(entries)
    kernels = [e for e in entries if "key" in e]
    lines = [
        "cc    kernels  equal  rounding  fault  unsupported  other  "
        "stages run  inputs  without launch"
    ]
    for cc in sorted({e["cc"] for e in kernels}):
        held = [e for e in kernels if e["cc"] == cc]
        words = Counter(e["status"] for e in held)
        good = [e for e in held if e["status"] == "verified"]
        rounding = sum(bool(e["rounding"]) for e in good)
        other = len(held) - words["verified"] - words["fault"] - words["unsupported"]
        lines.append(
            f"{cc:<4} {len(held):8} {len(good) - rounding:6} {rounding:9} {words['fault']:6} "
            f"{words['unsupported']:12} {other:6} {sum(e.get('run', 0) for e in held):11} "
            f"{sum(e.get('inputs', 0) for e in held):7} "
            f"{sum(not e.get('launch', True) for e in held):8}"
        )
    for e in entries:
        if e["status"] in ("verified", "done"):
            continue
        lines.append(f"{e['status']} {e['cc']} {e['op']} {e.get('kernel', '')} {e.get('key', '')}")
        said = [f["message"] for f in e.get("faults", [])[:2]] + e.get("unsupported", [])[:2]
        if "key" in e:
            said += [f"left out: {r}: {n}" for r, n in e.get("left_out", {}).items()][:2]
        lines += [f"    {text[:220]}" for text in [e.get("detail", ""), *said] if text]
    skipped = Counter({cc: 0 for cc in sorted({e["cc"] for e in entries})})
    for e in entries:
        skipped[e["cc"]] += e.get("left_out", 0) if "key" not in e else 0
    lines += [f"left out at {cc}: {n} specialisations" for cc, n in skipped.items() if n]
    why = Counter((e["cc"], name) for e in kernels for name in e.get("rounding", []))
    lines += [f"rounding at {cc} after {name}: {n} kernels" for (cc, name), n in why.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
