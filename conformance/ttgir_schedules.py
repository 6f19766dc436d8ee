"""Every schedule of modules after barrier insertion, as they are and with all barriers stripped.

    python -m conformance.ttgir_schedules --modules FOLDER [--cc 80,90,100] [--only REGEX]
        [--seconds 120] [--report] [--json FILE]

FOLDER was filled by `conformance.ttgir_collect`. A module that the compiler made must be verified
as it is, or its fault be real (`REAL`); without its barriers (`ttg.barrier`, `gpu.barrier`) it must
be refuted, or it is found out what they are for (`ttgir_reasons`). Each module is looked at in a
fork with a limit of CPU time, and at a smaller launch if that is not enough; what has a result is
not done again, except with `--rerun`.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance import forked, results
from conformance.ttgir_modules import Kept, Store, smaller
from conformance.ttgir_reasons import BARRIERS, needed_for, stripped

PROGRAMS = 64
"""Of a grid, at most."""
REAL = (
    # The reports are about these.
    ("20-gluon-ws-late-wait/buggy", r"race: ttg\.local_store|deadlock: ttng\.wait_barrier"),
    # A ring has a slot too few (see the README of this folder); with a wait for all products they
    # are verified.
    (
        "chunk_(rwkv6_bwd_kernel_inter|bwd_kernel_dqkwg)",
        r"race: ttg\.async_copy_global_to_local .* that ttng\.warp_group_dot .* reads",
    ),
    # The first tiles of a next output tile are loaded after the last one, too, and the program ends
    # without waiting for them.
    (
        "(persistent_matmul_pipelined|matmul_fused_gather_scatter)_kernel",
        r"lifetime: ttng\.async_tma_(copy_global_to_local|gather) .* may outlive the block",
    ),
    # Tiles are loaded over those that the product of the round before may still read; the wait for
    # it comes after the loads.
    (
        "conv2d_im2col_kernel",
        r"race: ttng\.async_tma_copy_global_to_local .* that ttng\.(warp_group_dot|tc_gen5_mma) ",
    ),
    # A store to global memory that nobody waits for.
    (
        "(tma_multicast_copy|two_cta_tcgen05|tma_tcgen05|matmul_multicta)_kernel",
        r"lifetime: ttng\.async_tma_copy_local_to_global .* may outlive the block",
    ),
    # What goes into another block's memory, which that block has filled before a relaxed cluster
    # barrier (it publishes nothing), or before none.
    (
        "(tma_gather_scatter_subslice|cross_cta_tma)_kernel",
        r"race: ttng\.async_tma_\w+ of .* that ttg\.local_alloc of thread 0 of block 1 writes",
    ),
    # The address of tensor memory has been written where another block's copy goes to, and only a
    # relaxed cluster barrier stands between.
    (
        "tcgen05_mma_(multicast_commit|scaled_direct_multicast)_kernel",
        r"race: ttng\.async_tma_copy_global_to_local of .* that tt\.func of .* writes: not ordered",
    ),
    # A product of two blocks reads what the second one has stored before a relaxed cluster barrier.
    (
        "test_core mma_kernel",
        r"race: ttng\.tc_gen5_mma .*(that ttg\.local_alloc|and tt\.func) of thread 0 of block 1 ",
    ),
    # Scales are copied to tensor memory even where the product is predicated off, and its commit.
    ("mma_scaled_pipelined_kernel", r"lifetime: .* frees tensor memory and ttng\.tmem_copy "),
)
"""Kernels, and the faults that are theirs."""
SMALLER = ((4, 128), (16, 128), (4, 32))
"""By which integers of a launch are divided that takes too long, and above which number."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.ttgir_schedules")
    parser.add_argument(
        "--modules", type=Path, default=results.default_path("ttgir").with_suffix("")
    )
    parser.add_argument("--cc", default="80,90,100", help="compute capabilities (80,90,100)")
    parser.add_argument("--only", default="", help="group, origin, kernel or key that match")
    parser.add_argument("--seconds", type=float, default=120, help="CPU time for a verdict (120)")
    parser.add_argument("--total", type=float, default=1e9, help="seconds after which to stop")
    parser.add_argument("--rerun", default="", help="statuses to do again, or all")
    parser.add_argument("--results", type=Path, help="lines of JSON (in FOLDER)")
    parser.add_argument("--json", type=Path, help="write the table to this file, too")
    parser.add_argument("--report", action="store_true", help="run nothing, print what is known")
    parser.add_argument("-v", action="store_true", help="print every module")
    args = parser.parse_args()
    store = Store(args.modules)
    path = args.results or args.modules / "schedules.jsonl"
    ccs = {int(c) for c in args.cc.split(",")}
    chosen = [k for k in store.all() if k.cc in ccs and _matches(k, args.only)]
    if not args.report:
        again = set(args.rerun.split(",")) if args.rerun else set()
        known = results.read(path, ("key",))
        until = time.monotonic() + args.total
        preload()
        for kept in chosen:
            old = known.get((kept.key,))
            if old is not None and not again & {old["status"], old["stripped"]["status"], "all"}:
                continue
            if time.monotonic() > until:
                break
            entry = look(store, kept, args.seconds)
            results.append(path, entry)
            if args.v or entry["status"] != "verified":
                print(line_of(kept, entry), flush=True)
    known = results.read(path, ("key",))
    rows = [(k, known[(k.key,)]) for k in chosen if (k.key,) in known]
    print(summary(rows, len(chosen)))
    if args.json is not None:
        args.json.write_text(json.dumps(table(rows), indent=1) + "\n")
    return int(any(status_of(k, e) not in ("verified", "fault (real)") for k, e in rows))


def _matches(kept: Kept, pattern: str) -> bool:
    return bool(re.search(pattern, f"{kept.group} {kept.origin} {kept.kernel} {kept.key}"))


def preload() -> None:
    """Import what every fork needs."""
    import xttir.analyses.modules
    from xttir.frontends import mlir
    from xttir.interp.registry import implementations
    from xttir.interp.tracing import handlers

    mlir.preload()
    implementations()
    handlers.load_all()
    assert xttir.analyses.modules


def look(store: Store, kept: Kept, seconds: float) -> results.Entry:
    """The result of a module as a line of JSON."""
    entry: results.Entry = {"key": kept.key, "status": "", "stripped": {"status": ""}}
    began = time.monotonic()
    entry |= _asked(verified, store, kept, False, seconds)
    given = kept
    for divisor, above in SMALLER:
        if entry["status"] == "time-out":
            kept = replace(given, arguments=scaled(given, divisor, above))
            entry |= _asked(verified, store, kept, False, seconds) | {"divided by": divisor}
    found = _asked(verified, store, kept, True, seconds)
    if found["status"] == "verified":
        for larger in (True, False):
            why = _asked(needed, store, kept, (seconds / 2, larger), seconds)
            found |= {"needed": why}
            if "status" not in why:
                break
    entry["stripped"] = found
    entry["wall"] = round(time.monotonic() - began, 2)
    return entry


def _asked(what: Any, store: Store, kept: Kept, argument: Any, seconds: float) -> dict[str, Any]:
    """The answer of a fork."""
    patience = 20 * seconds  # Other work may have the processors.
    found, ended = forked.ask(what, patience, store, kept, argument, cpu=int(seconds))
    if found is None:
        return {"status": "time-out" if ended.startswith("more") else "crash", "detail": ended}
    return found


def scaled(kept: Kept, divisor: int, above: int) -> dict[int, int | float]:
    """The numbers of a launch with all integers above a number divided, as sizes and strides are
    together; they stay multiples of what they were multiples of, up to that number."""
    return {
        n: max(v // divisor // (p := math.gcd(v, above)) * p, p)
        if type(v) is int and v > above
        else v
        for n, v in kept.arguments.items()
    }


def verified(store: Store, kept: Kept, strip: bool) -> dict[str, Any]:
    """The verdict on a module, with or without its barriers."""
    from xttir.analyses.modules import verify_module
    from xttir.diagnostics import XttirError
    from xttir.frontends.mlir import parse_module

    began = time.process_time()
    count = -1
    found: dict[str, Any] = {}
    try:
        # In a process of its own: the module may be changed although parsing shares it.
        module = parse_module(store.text(kept), str(store.path(kept)), verify=False)
        count = sum(op.name in BARRIERS for op in module.walk())
        if strip and not stripped(module):
            return {"status": "none", "barriers": 0}
        report = verify_module(module, launch_of(store, kept))
        found |= {
            "status": str(report.verdict),
            "faults": [
                f"{f.policy}: {f.kind}: {f.message[:300]} at {', '.join(map(str, f.locations[:2]))}"
                for f in report.faults[:6]
            ],
            "unknown": report.unknown[:4],
            "stats": report.stats,
        }
    except XttirError as error:
        found = {"status": type(error).__name__.lower(), "detail": str(error)[:400]}
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = "; ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[-4:])
        found = {"status": "internal", "detail": f"{type(error).__name__}: {error} [{place}]"[:500]}
    return found | {"barriers": count, "seconds": round(time.process_time() - began, 2)}


def needed(store: Store, kept: Kept, how: tuple[float, bool]) -> dict[str, Any]:
    """What the barriers are for of a module that is verified without them. `how`: CPU time, and
    whether larger launches are tried."""
    from xttir.frontends.mlir import parse_module

    began = time.process_time()
    whole = parse_module(store.text(kept), str(store.path(kept)), verify=False)
    module = whole.clone()
    stripped(module)
    found = needed_for(module, whole, launch_of(store, kept), *how)
    return found | {"seconds": round(time.process_time() - began, 2)}


def launch_of(store: Store, kept: Kept) -> Any:
    """The launch of a kept module, on a grid of few programs."""
    from xttir.interp.launch import Storage, TensorArg
    from xttir.interp.tracing import Launch

    tensors = {}
    for index, values in store.contents(kept).items():
        storage = Storage(values.view("uint8"), (index + 1) << 32)
        tensors[index] = TensorArg(f"#{index}", storage, 0, values.shape, (1,), values.dtype)
    grid = smaller(kept.grid, PROGRAMS)
    return Launch(kept.kernel, grid, kept.arguments, tensors)


def line_of(kept: Kept, entry: results.Entry) -> str:
    """A module's line, and why it is not verified."""
    stripped = entry["stripped"]["status"]
    head = f"{entry['status']:11} stripped {stripped:11} {kept.cc} {kept.origin} {kept.kernel} "
    why = entry.get("faults", [])[:2] + entry.get("unknown", [])[:2]
    why += [entry["detail"]] if entry.get("detail") else []
    return head + f"{kept.key} {entry['wall']} s" + "".join(f"\n    {w[:300]}" for w in why)


Row = tuple[Kept, results.Entry]


def status_of(kept: Kept, entry: results.Entry) -> str:
    """The verdict; "fault (real)" where all faults are known to be the kernel's own."""
    if entry["status"] != "fault":
        return entry["status"]
    told = [f for f in entry["faults"] if not f.startswith("strict")]
    own = [pattern for kernel, pattern in REAL if re.search(kernel, f"{kept.origin} {kept.kernel}")]
    real = own and all(any(re.search(pattern, f) for pattern in own) for f in told)
    return "fault (real)" if real else "fault"


def stripped_status(entry: results.Entry) -> str:
    """The verdict without barriers, and why it is not a fault."""
    found = entry["stripped"]
    if found["status"] != "verified":
        return found["status"]
    needed = found.get("needed", {})
    if needed.get("found") == "fault":
        return f"fault ({needed['for']})"
    if needed.get("found") == "redundant":
        return f"redundant ({needed['for']})"
    return "verified at every launch tried"


def table(rows: list[Row]) -> list[dict[str, Any]]:
    """Counts by group and capability."""
    lines = []
    for group, cc in sorted({(k.group, k.cc) for k, _ in rows}):
        part = [(k, e) for k, e in rows if (k.group, k.cc) == (group, cc)]
        lines.append(
            {
                "group": group,
                "cc": cc,
                "modules": len(part),
                "as they are": dict(Counter(status_of(k, e) for k, e in part)),
                "stripped": dict(Counter(stripped_status(e) for _, e in part)),
            }
        )
    return lines


def summary(rows: list[Row], wanted: int) -> str:
    """The table as text, then what is not verified by cause."""
    lines = [f"{len(rows)} of {wanted} modules looked at"]
    lines.append(f"{'group':10} {'cc':>4} {'modules':>7}  as they are; stripped of barriers")
    for row in table(rows):
        words = [", ".join(f"{n} {w}" for w, n in sorted(row[part].items(), key=lambda x: -x[1]))
                 for part in ("as they are", "stripped")]  # fmt: skip
        lines.append(f"{row['group']:10} {row['cc']:4} {row['modules']:7}  {'; '.join(words)}")
    causes: dict[str, list[str]] = {}
    for kept, entry in rows:
        if entry["status"] != "verified" and status_of(kept, entry) != "fault (real)":
            why = [*entry.get("faults", []), *entry.get("unknown", []), entry.get("detail", "")]
            text = next((w for w in why if w), "")
            key = re.sub(r"\S*/\S+|\d+", "N", text)[:160]
            name = f"{kept.cc} {kept.origin} {kept.kernel} {kept.key}"
            causes.setdefault(f"{entry['status']}: {key}", []).append(name)
    for cause, names in sorted(causes.items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(names):5} {cause}\n        {'; '.join(names[:3])}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
