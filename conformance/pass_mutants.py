"""How well does `xttir validate` notice that a compiler pass changed the meaning?

    python -m conformance.pass_mutants [--cc 80,90,100] [--kernels REGEX] [--count 4] [--seed 0]
        [--results FILE] [--survivors] [--report]

Real kernels go through Triton's passes. What a pass made is changed in one place (`mutations`), and
the module before the pass and the changed one after it are judged as `xttir validate A B` judges
two files, with the launch of the user's program where there is one. Unchanged pairs must verify.
Of changes that are not noticed it is asked: do Triton's own clean-up passes make the same module of
both (then nothing was changed), and does `xttir verify` refute the changed one (then it is a matter
of ordering alone)? What is left is to be looked at: `--survivors` prints it. Results are lines of
JSON; a run goes on where it was.
"""

from __future__ import annotations

import argparse
import difflib
import random
import re
import sys
import time
import traceback
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance import forked, results
from conformance.mutant_kernels import KERNELS, Kernel, kernels

FOUND, SURVIVED, ROUNDING = "found", "survived", "rounding"
CLEAN = "canonicalize,cse,triton-licm,canonicalize,cse"
PASSES_KEPT = 8
"""Passes of one kernel whose output is changed."""


@dataclass(frozen=True)
class Site:
    """Where a change is made: the stage, the op's place in it, the number of its change."""

    stage: int
    before: int
    op: int
    change: int
    kind: str
    what: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.pass_mutants")
    parser.add_argument("--cc", default="80,90,100", help="compute capabilities (80,90,100)")
    parser.add_argument("--kernels", default="", help="names that this matches")
    parser.add_argument("--count", type=int, default=4, help="changes to each kernel (4)")
    parser.add_argument("--kinds", default="", help="kinds of changes that this matches")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=32, help="made by xttir, a pair (32)")
    parser.add_argument("--programs", type=int, default=64, help="of a grid at most (64)")
    parser.add_argument("--seconds", type=int, default=60, help="CPU time for a pair (60)")
    parser.add_argument("--results", type=Path, default=results.default_path("mutants"))
    parser.add_argument(
        "--again", action="store_true", help="judge once more what is to be looked at"
    )
    parser.add_argument("--survivors", action="store_true", help="print what was not noticed")
    parser.add_argument("--report", action="store_true", help="run nothing, print what is known")
    args = parser.parse_args()
    if not args.report:
        for cc in args.cc.split(","):
            for name in KERNELS:
                if re.search(args.kernels, name):
                    said, ended = forked.ask(work, 3600, name, int(cc), args)
                    if not said:
                        print(f"{cc} {name}: {ended}", flush=True)
    print(report(list(results.read(args.results, KEY).values()), args.survivors))
    return 0


KEY = ("cc", "name", "kernel", "stage", "op", "change")


def open_(entry: results.Entry) -> bool:
    """Whether a result is to be looked at: unchanged kernels that do not verify, changes that are
    not noticed for no known reason, right ones that are."""
    status = entry["status"]
    if entry["stage"] < 0:
        return status != "verified"
    if entry["kind"].startswith("right"):
        return status not in (SURVIVED, INVALID)
    return status not in (FOUND, INVALID) and not entry.get("why")


def work(name: str, cc: int, args: argparse.Namespace) -> bool:
    """Judge changes to the kernels of `name`; results are appended to the file."""
    known = results.read(args.results, KEY)
    if args.again and not any(open_(e) for k, e in known.items() if k[:2] == (cc, name)):
        return True
    for kernel in kernels(name, cc, args.programs):
        whole = (cc, name, kernel.kernel)
        mine = {k: e for k, e in known.items() if k[:3] == whole}
        first = mine.get((*whole, -1, -1, -1))
        if first is None or (args.again and open_(first)):
            entry = _entry(whole, -1, -1, -1) | {"kind": "as it is"}
            entry |= _asked(unchanged, args.seconds * 4, kernel, args.inputs)
            results.append(args.results, entry)
            print(*whole, entry["status"], entry.get("message", ""), flush=True)
        if args.again:
            places = {k[3:] for k, e in mine.items() if k[3] >= 0 and open_(e)}
            sites, count = _sites_at(kernel, places), len(places)
        else:
            held = Counter(e["kind"] for e in known.values())
            seed = zlib.crc32(repr((args.seed, *whole, -1, -1, -1)).encode())
            sites = chosen(kernel, random.Random(seed), held, args.kinds)
            sites = [s for s in sites if (*whole, s.stage, s.op, s.change) not in mine]
            done = sum(k[3] >= 0 and e["status"] != INVALID for k, e in mine.items())
            count = args.count - done
        for site in sites:
            if count <= 0:
                break
            entry = _entry(whole, site.stage, site.op, site.change)
            entry |= {"kind": site.kind, "what": site.what, "level": level(kernel, site)}
            entry |= {"pass": kernel.stages[site.stage].name}
            began = time.monotonic()
            entry |= _asked(judged, args.seconds, kernel, site, args.inputs)
            entry["seconds"] = round(time.monotonic() - began, 1)
            results.append(args.results, entry)
            known[(*whole, site.stage, site.op, site.change)] = entry
            if entry["status"] != INVALID:
                count -= 1
                words = (entry["pass"], site.kind, "|", site.what[:60], "|", entry["status"])
                print(cc, name, *words, entry.get("why", ""), entry["seconds"], flush=True)
    return True


def _entry(whole: tuple[int, str, str], *place: int) -> results.Entry:
    return dict(zip(KEY, (*whole, *place), strict=True))


def _sites_at(kernel: Kernel, places: set[tuple[int, ...]]) -> list[Site]:
    stages = {stage for stage, _, _ in places}
    pairs = [pair for pair in changed_stages(kernel) if pair[0] in stages]
    return [s for s in every_site(kernel, "", pairs) if (s.stage, s.op, s.change) in places]


INVALID = "does not verify"


def _asked(target: Any, seconds: int, *arguments: Any) -> dict[str, Any]:
    found, ended = forked.ask(_guarded, 20 * seconds, target, *arguments, cpu=seconds)
    return found or {"status": "time-out", "message": ended}


def _guarded(target: Any, *arguments: Any) -> dict[str, Any]:
    try:
        return target(*arguments)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        place = "; ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames)
        return {"status": "internal", "message": f"{type(error).__name__}: {error} [{place}]"}


def level(kernel: Kernel, site: Site) -> str:
    """How far down the module is."""
    names = [s.name for s in kernel.stages[: site.stage + 1]]
    if kernel.stages[site.stage].part == "ttir" or not any("convert-triton" in n for n in names):
        return "TTIR"
    return "TTGIR, pipelined" if "tritongpu-pipeline" in names else "TTGIR"


def changed_stages(kernel: Kernel) -> list[tuple[int, int]]:
    """(stage, the stage before it that has another text) for passes that did something."""
    from xttir.refine.stages import plain_text

    found: list[tuple[int, int]] = []
    last, text = 0, plain_text(kernel.stages[0].text)
    for n, stage in enumerate(kernel.stages[1:], 1):
        other = plain_text(stage.text)
        if other != text:
            found.append((n, last))
            last, text = n, other
    return found


def every_site(
    kernel: Kernel, kinds: str, pairs: list[tuple[int, int]] | None = None
) -> list[Site]:
    """Every change to what the passes of `pairs` (all, if None) made."""
    from conformance.mutations import changes

    sites: list[Site] = []
    for stage, before in changed_stages(kernel) if pairs is None else pairs:
        module = kernel.stages[stage].module()
        for n, op in enumerate(module.walk()):
            if op.parent is None or op.name in ("tt.func", "tt.return", "builtin.module"):
                continue
            for k, change in enumerate(changes(op)):
                if re.search(kinds, change.kind):
                    sites.append(Site(stage, before, n, k, change.kind, change.what))
    return sites


def chosen(kernel: Kernel, rng: random.Random, held: Counter[str], kinds: str) -> list[Site]:
    """Changes in the order in which to try them: kinds of which there are few first."""
    pairs = changed_stages(kernel)
    late = [p for p in pairs if "pipeline" in kernel.stages[p[0]].name] + pairs[-1:]
    rest = [p for p in pairs if p not in late]
    rng.shuffle(rest)
    pairs = (late + rest)[:PASSES_KEPT]
    by_kind: dict[str, list[Site]] = {}
    for site in every_site(kernel, kinds, pairs):
        by_kind.setdefault(site.kind, []).append(site)
    for sites in by_kind.values():
        # Every stage as often as another, whatever its length.
        rng.shuffle(sites)
        seen: Counter[tuple[int, str]] = Counter()
        order: dict[Site, int] = {}
        for site in sites:
            order[site] = seen[site.stage, site.what]
            seen[site.stage, site.what] += 1
        sites.sort(key=order.__getitem__)
    counts = Counter({kind: held[kind] for kind in by_kind})
    out: list[Site] = []
    tie = {kind: rng.random() for kind in by_kind}
    while by_kind and len(out) < 400:
        kind = min(by_kind, key=lambda k: (counts[k], tie[k]))
        out.append(by_kind[kind].pop(0))
        counts[kind] += 1
        if not by_kind[kind]:
            del by_kind[kind]
    return out


def changed_text(kernel: Kernel, site: Site) -> str:
    """What the pass made, changed; "" if the change cannot be made or does not verify."""
    from xdsl.utils.exceptions import VerifyException

    from conformance.mutations import changes
    from xttir.diagnostics import XttirError
    from xttir.dialects.syntax.printer import module_text
    from xttir.frontends.mlir import parse_module

    module = kernel.stages[site.stage].module().clone()
    op = list(module.walk())[site.op]
    change = list(changes(op))[site.change]
    assert change.kind == site.kind
    if not change.apply():
        return ""
    try:
        module.verify()
        text = module_text(module)
        if change.everywhere[0]:
            text = text.replace(*change.everywhere)
        parse_module(text, "changed.mlir", verify=True)
    except (VerifyException, XttirError):
        return ""
    return text


def unchanged(kernel: Kernel, limit: int) -> dict[str, Any]:
    """Whether every stage does what the one before does."""
    from xttir.refine.stages import validate

    found = validate(kernel.stages, kernel.cases, limit=limit)
    bad = found.first
    status = "verified" if bad is None and found.cases else "mismatch"
    status = "unsupported" if bad is None and found.unsupported else status
    message = ""
    if bad is not None:
        said = [f.difference.message for f in bad.findings if f.difference.is_fault]
        said += [f.message for f in bad.layouts]
        message = f"{bad.stage.name}: {said[0][:300] if said else ''}"
    for row in found.unsupported[:1]:
        message += f" unsupported after {row.stage.name}: {row.unsupported}"
    return {"status": status, "message": message, "inputs": len(found.cases)}


def judged(kernel: Kernel, site: Site, limit: int) -> dict[str, Any]:
    """The verdict on one change, and why it was not noticed, as far as that can be asked."""
    from xttir.dialects.syntax.printer import module_text
    from xttir.refine.stages import Stage, validate

    text = changed_text(kernel, site)
    if not text:
        return {"status": INVALID}
    before, after = kernel.stages[site.before], kernel.stages[site.stage]
    pair = [
        Stage("", before.text, file="before.mlir"),
        Stage("", text, file="after.mlir"),
    ]
    found = validate(pair, kernel.cases, limit=limit, stop_at_first=True)
    lines = module_text(after.module()).splitlines(), text.splitlines()
    diff = [x for x in difflib.unified_diff(*lines, n=0) if not x.startswith(("@@", "---", "+++"))]
    entry: dict[str, Any] = {"diff": [x[:260] for x in diff[:8]], "inputs": len(found.cases)}
    row = found.rows[1]
    if found.first is not None:
        said = [f.difference for f in row.findings if f.difference.is_fault]
        faults = [f"{d.what}: {d.message}" for d in said] + [f.message for f in row.layouts]
        faults += [row.invalid.message] if row.invalid is not None else []
        how = said[0].what if said else "layout" if row.layouts else "verifier"
        if said and said[0].what in ("undefined", "end"):
            how = str(said[0].kind)
        user = any(f.case.user for f in row.findings)
        return entry | {"status": FOUND, "how": how, "message": faults[0][:200], "launch": user}
    if found.unsupported:
        said = found.unsupported[0].unsupported
        return entry | {"status": "unsupported", "message": str(said)[:300]}
    if not found.cases:
        return entry | {"status": "no input", "message": str(found.skipped)[:300]}
    if any(not f.difference.is_fault for f in row.findings):
        return entry | {"status": ROUNDING, "why": row.findings[0].difference.message}
    return entry | {"status": SURVIVED, "why": why_not(kernel, site.kind, after.text, text)}


def why_not(kernel: Kernel, kind: str, before: str, after: str) -> str:
    """Why a change is no change, or what else notices it; "" if that is not known."""
    if _cleaned(before) == _cleaned(after):
        return "same after clean-up"
    if "ttg.num-warps" not in after:
        return ""
    first, second = _completed(before), _completed(after)
    if first is None or second is None:
        return "" if first is None else "Triton's next passes reject it"
    if first.text == second.text:
        return "same before LLVM"
    answers = [_every_schedule(kernel, m.stage) for m in (first, second)]
    if answers[0] == "verified" != answers[1]:
        return f"verify: {answers[1]}"
    orders = re.search("order|pending|parity|ring|right: done", kind)
    return "verified in every schedule" if orders and answers[1] == "verified" else ""


def _cleaned(text: str) -> str:
    from xttir.diagnostics import XttirError
    from xttir.refine.pipeline import PassFailed, apply
    from xttir.refine.stages import plain_text

    try:
        return plain_text(apply(text, CLEAN).stages[-1].text)
    except (XttirError, PassFailed):
        return text


@dataclass(frozen=True)
class _Completed:
    text: str
    stage: Any


def _completed(text: str) -> _Completed | None:
    """The module after barrier insertion."""
    from xttir.diagnostics import XttirError
    from xttir.refine.capture import capture_module
    from xttir.refine.pipeline import PassFailed
    from xttir.refine.stages import Stage, plain_text

    cc = re.search(r'ttg.target = "cuda:(\d+)"', text)
    try:
        stages = capture_module(
            Stage("", text, file="m.mlir"), int(cc[1]) if cc else 90, end="llir"
        )
    except (XttirError, PassFailed):
        return None
    return _Completed(plain_text(stages[-1].text), stages[-1])


def _every_schedule(kernel: Kernel, stage: Any) -> str:
    from xttir.analyses.modules import verify_module
    from xttir.diagnostics import Policy, XttirError
    from xttir.frontends.module_launch.signature import find_function
    from xttir.interp.launch import ScalarArg
    from xttir.interp.tracing import Launch

    module = stage.module()
    function = find_function(module, "")
    numbers: dict[int, Any] = {}
    grid = (1, 1, 1)
    if kernel.cases:
        from xttir.refine.world import expanded

        case = kernel.cases[0]
        arguments = expanded(case.arguments, [a.type for a in function.args])
        numbers = {n: a.value for n, a in enumerate(arguments) if isinstance(a, ScalarArg)}
        grid = tuple(min(n, 2) for n in case.grid)
    try:
        found = verify_module(module, Launch(function.sym_name.data, grid, numbers))  # pyright: ignore
    except XttirError as error:
        return f"unsupported: {str(error)[:120]}"
    faults = [f for f in found.faults if f.policy is not Policy.STRICT]
    if faults:
        return f"{faults[0].kind}: {faults[0].message[:120]}"
    return "open" if found.unknown else "verified"


def report(entries: list[results.Entry], survivors: bool) -> str:
    """Tables by kind and by level; then what is to be looked at."""
    whole = [e for e in entries if e["stage"] < 0]
    judged = [e for e in entries if e["stage"] >= 0 and e["status"] != INVALID]
    mutants = [e for e in judged if not e["kind"].startswith("right")]
    right = [e for e in judged if e["kind"].startswith("right")]
    good = sum(e["status"] == "verified" for e in whole)
    lines = [f"unchanged: {good} of {len(whole)} kernels verified in all their stages"]
    lines += [
        f"    {e['cc']} {e['name']} {e['kernel']}: {e['status']} {e.get('message', '')}"
        for e in whole
        if e["status"] != "verified"
    ]
    columns = (FOUND, SURVIVED, ROUNDING, "unsupported", "no input", "time-out", "internal")
    head = "".join(f"{c:>12}" for c in ("mutants", *columns))
    for word in ("kind", "level", "cc"):
        lines += ["", f"{word:28}{head}"]
        for value in [*sorted({e[word] for e in mutants}), None]:
            held = [e for e in mutants if value is None or e[word] == value]
            counts = Counter(e["status"] for e in held)
            numbers = [len(held), *(counts[c] for c in columns)]
            lines.append(
                f"{'all' if value is None else str(value):28}" + "".join(f"{n:12}" for n in numbers)
            )
    how = Counter(e["how"] for e in mutants if e["status"] == FOUND)
    lines += ["", "found by: " + ", ".join(f"{k} {n}" for k, n in how.most_common())]
    why = Counter(
        (e.get("why") or "to be looked at").split(":")[0]
        for e in mutants
        if e["status"] == SURVIVED
    )
    lines += ["not noticed: " + ", ".join(f"{k} {n}" for k, n in why.most_common())]
    invalid = sum(e["status"] == INVALID for e in entries)
    names = {(e["name"], e["kernel"]) for e in mutants}
    kept = sum(e["status"] == SURVIVED for e in right)
    lines += [f"right rewrites: {kept} of {len(right)} verified"]
    lines += [
        f"{len(names)} kernels; {invalid} changes left out, which do not verify or change nothing"
    ]
    if survivors:
        bad = [e | {"status": f"right, but {e['status']}"} for e in right if open_(e)]
        for e in [*filter(open_, mutants), *bad]:
            lines += ["", _told(e)]
    return "\n".join(lines)


def _told(e: results.Entry) -> str:
    """A change that is to be looked at."""
    place = f"{e['cc']} {e['name']} {e['kernel']}, {e['pass']} ({e['stage']})"
    head = (
        f"{e['status']} {place}, op {e['op']} change {e['change']}: {e['kind']}: {e['what'][:100]}"
    )
    more = [e[k][:300] for k in ("message",) if e.get(k)] + e.get("diff", [])
    return "\n    ".join([head, *more])


if __name__ == "__main__":
    sys.exit(main())
