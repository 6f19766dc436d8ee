"""Do modules after barrier insertion and their PTX have the same verdict, also with ops deleted?

    python -m conformance.ttgir_agree --modules FOLDER [--only REGEX] [--count 20] [--deletions 4]

FOLDER was filled by `conformance.ttgir_collect`. Each module is verified, lowered by Triton from
there on, and its PTX is verified at the same launch: as it is, and with one op deleted that orders
something, each kind of op in turn. Where scratch memory of ops is concerned, the module may be
refuted and its PTX be verified; where threads of one program meet in global memory, the module may
be verified and its PTX be refuted (see docs).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from xdsl.ir import Operation

from conformance import forked, results
from conformance.ttgir_modules import Kept, Store
from conformance.ttgir_schedules import launch_of, preload

ORDER = (
    "ttg.barrier", "ttng.cluster_barrier", "ttng.wait_barrier", "ttng.arrive_barrier",
    "ttng.barrier_expect", "ttng.fence_async_shared", "ttng.async_tma_store_wait",
    "ttng.init_barrier", "ttng.tmem_wait", "ttg.async_wait", "ttng.warp_group_dot_wait",
    "ttng.tc_gen5_commit", "ttng.fence_mbarrier_init_release_cluster", "ttg.async_commit_group",
    "gpu.barrier", "ttng.async_copy_mbarrier_arrive",
)  # fmt: skip
"""Ops that order something and can be deleted; what they pass on is what they are given."""
SCRATCH = ("ttg.convert_layout", "tt.reduce", "tt.scan", "tt.gather", "tt.histogram")
FINE = ("agree", "coarse", "global memory", "open")
MADE_UP = ("out-of-bounds", "uninitialized")
"""Kinds of faults that sizes of tensors, which nobody gives here, would decide."""
LARGE = "a smaller tensor"
"""In what is said where data may lead anywhere in a tensor."""
SMALL = 1 << 16
"""Bytes of tensors then; who is beyond them is out of bounds, which is not counted."""
COPIES = "writes one place"
"""In PTX it cannot be seen that threads which store to one place hold copies of one element."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.ttgir_agree")
    parser.add_argument("--modules", type=Path, required=True)
    parser.add_argument("--only", default="", help="group, origin, kernel, capability or key")
    parser.add_argument("--count", type=int, default=20, help="modules, the smallest first (20)")
    parser.add_argument("--spread", action="store_true", help="modules of all sizes")
    parser.add_argument("--deletions", type=int, default=4, help="of a module, at most (4)")
    parser.add_argument("--seconds", type=int, default=60, help="CPU time for a pair (60)")
    parser.add_argument("--results", type=Path, help="lines of JSON (in FOLDER)")
    args = parser.parse_args()
    store = Store(args.modules)
    path = args.results or args.modules / "agree.jsonl"
    preload()
    known = results.read(path, ("key", "deleted"))
    chosen = [k for k in store.all() if k.launch and _wanted(store, k, args.only)]
    chosen.sort(key=lambda k: store.path(k).stat().st_size)
    if args.spread:
        chosen = chosen[:: max(1, len(chosen) // args.count)]
    for kept in chosen[: args.count]:
        whole = known.get((kept.key, -1)) or ask(store, kept, -1, args.seconds, path)
        for deleted in whole.get("deletions", [])[: args.deletions]:
            if (kept.key, deleted) not in known:
                ask(store, kept, deleted, args.seconds, path)
    entries = list(results.read(path, ("key", "deleted")).values())
    words = Counter(e["status"] for e in entries if e["status"] != "none")
    for op, counts in sorted(by_op(entries).items()):
        print(f"{op or 'as it is':45} {counts}")
    refuted = sum(bool(e.get("module")) for e in entries if e["status"] == "agree")
    modules = len({e["key"] for e in entries})
    print(f"{modules} modules, {sum(words.values())} pairs: {dict(words)}")
    print(f"{refuted} agree in a fault")
    return int(any(w not in (*FINE, "unsupported") for w in words))


def ask(store: Store, kept: Kept, deleted: int, seconds: int, path: Path) -> results.Entry:
    """Compare in a fork; the entry, which is appended to the results."""
    found, ended = forked.ask(compared, 20 * seconds, store, kept, deleted, cpu=seconds)
    entry = {"key": kept.key, "deleted": deleted, "kernel": kept.kernel, "cc": kept.cc}
    entry |= found or {"status": "time-out", "detail": ended}
    results.append(path, entry)
    if entry["status"] not in (*FINE, "none"):
        print(json.dumps(entry)[:600], flush=True)
    return entry


def by_op(entries: list[results.Entry]) -> dict[str, dict[str, int]]:
    """How many pairs have which status, by the op that was deleted."""
    found: dict[str, Counter[str]] = {}
    for entry in entries:
        if entry["status"] != "none":
            status = entry["status"]
            if status == "agree" and entry.get("module"):
                status = "agree in a fault"
            found.setdefault(entry.get("op", ""), Counter())[status] += 1
    return {op: dict(counts) for op, counts in found.items()}


def in_turn(names: list[str]) -> list[int]:
    """Indices of ops to delete: the first of every kind, the last ones, then those between."""
    places: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        places.setdefault(name, []).append(index)
    rounds: list[int] = []
    for pick in (0, -1, 0.5, 0.25, 0.75):
        for of_kind in places.values():
            index = of_kind[int(pick if isinstance(pick, int) else pick * len(of_kind))]
            if index not in rounds:
                rounds.append(index)
    return rounds


def _wanted(store: Store, kept: Kept, pattern: str) -> bool:
    what = f"{kept.group} {kept.origin} {kept.kernel} {kept.cc} {kept.key}"
    text = store.text(kept)
    return bool(re.search(pattern, what)) and any(f"{name} " in text for name in ORDER)


def compared(store: Store, kept: Kept, deleted: int) -> dict[str, Any]:
    """Both verdicts: "agree", "coarse" (only scratch memory or lanes of one warp that may exchange
    rows of matrices make the difference), "global memory"
    (threads of the program race there, which modules are not asked), "open" (a fault here, and
    there it is not known whether), "differ", "unsupported"; "none" if there is no such op to
    delete."""
    from xttir.analyses.launches import verify_launch
    from xttir.analyses.modules import verify_module
    from xttir.diagnostics import Unsupported, XttirError
    from xttir.dialects.syntax.printer import module_text
    from xttir.frontends.launch_description.match import match
    from xttir.frontends.mlir import parse_module
    from xttir.frontends.ptx import parse_ptx
    from xttir.interp.tracing.open_loops import END
    from xttir.refine.to_ptx import launch_of as ptx_launch
    from xttir.refine.to_ptx import lower

    began = time.process_time()
    launch = launch_of(store, kept)
    # One program: what two of them do to global memory is no question of the module's schedules.
    everybody, launch = launch, replace(launch, grid=(1, 1, 1))
    name = ""
    more: dict[str, Any] = {}
    try:
        module = parse_module(store.text(kept), str(store.path(kept)), verify=False)
        there = [op for op in module.walk() if op.name in ORDER]
        more = {} if deleted >= 0 else {"deletions": in_turn([op.name for op in there])}
        if deleted >= 0:
            if deleted >= len(there):
                return {"status": "none"}
            name = there[deleted].name
            if not delete(there[deleted]):
                return {"status": "none"}
        mine = verify_module(module, launch)
        if END in mine.assumptions:
            # Others must be there for the loop to end; what they do to each other in global memory
            # is left out below.
            launch = everybody
        made = lower(module_text(module), kept.cc)
        parsed = parse_ptx(made.ptx, "k.ptx")
        try:
            described = ptx_launch(module, launch, made)
            other = verify_launch(parsed, match(described, parsed))[1]
        except Unsupported as error:
            if LARGE not in str(error):
                raise
            described = ptx_launch(module, launch, made, SMALL)
            other = verify_launch(parsed, match(described, parsed))[1]
    except XttirError as error:
        return more | {"status": "unsupported", "op": name, "detail": str(error)[:200]}
    first, second = _counted(mine.faults), _counted(other.faults)
    exact = [f for f in first if not any(f"{s} of" in f for s in SCRATCH) and not _by_rows(f)]
    status = "differ"
    if bool(first) == bool(second):
        status = "agree"
    elif first and not second and not exact:
        status = "coarse"
    elif (mine if second else other).unknown:
        status = "open"
    elif not first and all("global memory" in f for f in second):
        status = "global memory"
    return more | {
        "status": status,
        "op": name,
        "module": first[:2],
        "ptx": second[:2],
        "open": [*mine.unknown[:1], *other.unknown[:1]],
        "seconds": round(time.process_time() - began, 2),
    }


def _by_rows(fault: str) -> bool:
    """Whether two lanes of one warp meet in a load and a store that may be made by matrices."""
    found = re.search(r"ttg\.local_\w+ of thread (\d+) .* ttg\.local_\w+ of thread (\d+)", fault)
    return found is not None and int(found[1]) // 32 == int(found[2]) // 32


def delete(op: Operation) -> bool:
    """Take an op out; False if there is nothing that could stand for its results."""
    if any(r.first_use is not None for r in op.results):
        if len(op.results) > len(op.operands):
            return False
        for result, operand in zip(op.results, op.operands, strict=False):
            if result.type != operand.type:
                return False
            result.replace_all_uses_with(operand)
    op.detach()
    op.erase()
    return True


def _counted(faults: list[Any]) -> list[str]:
    return [
        f"{f.kind}: {f.message[:160]}"
        for f in faults
        if f.policy != "strict" and f.kind not in MADE_UP and COPIES not in f.message
    ]


if __name__ == "__main__":
    sys.exit(main())
