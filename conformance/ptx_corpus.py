"""Compilers' PTX (Triton, TileLang), with launch descriptions: verified and run on numbers.

python -m conformance.ptx_corpus --corpus FOLDER [--only sm90] [--launches FOLDER]

FOLDER holds `PRODUCER/NAME.ptx`; the launch descriptions are `PRODUCER/NAME.json` in
tests/data/launches. Every file is parsed, printed and parsed again, verified for every schedule,
and run along a few schedules against the reference of its description. TileLang's faults are known:
two kernels copy a tile into a stage that a tensor-core operation may still be reading; and where it
splits a loop by itself, all warps of the producer wait for an empty slot but one thread copies, so
that a warp that comes two phases late waits forever (an H200 hangs when it is held up).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from conformance import results
from xttir.analyses.launches import verify_launch
from xttir.diagnostics import Verdict, XttirError
from xttir.frontends.launch_description import compare, load, materialise, reference
from xttir.frontends.launch_description.match import match
from xttir.frontends.ptx import parse_ptx, print_ptx
from xttir.interp.ptx import run

FAULTS = {
    "sm100_tcgen05_pipelined_notma": "race",
    "sm100_tcgen05_pipelined_tma": "race",
    "sm100_gemm_pipelined": "phase",
    "sm90_gemm_dynamic_shapes": "phase",
    "sm90_gemm_pipelined_autows": "phase",
    "sm90_mha_fwd": "phase",
    "sm90_mha_fwd_causal": "phase",
}
"""The kind of the fault of each kernel that has one."""
LAUNCHES = Path(__file__).parents[1] / "tests" / "data" / "launches"
SCHEDULES = ("first", "adversarial", "random:0")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--launches", type=Path, default=LAUNCHES)
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--results", type=Path, default=results.default_path("ptx_corpus"))
    args = parser.parse_args()
    entries = []
    for file in sorted(args.corpus.glob("*/*.ptx")):
        name = f"{file.parent.name}/{file.stem}"
        if args.only not in name:
            continue
        entry = {"name": name} | check(file, args.launches / f"{name}.json")
        results.append(args.results, entry)
        entries.append(entry)
        print(f"{entry['status']:9} {name:45} {entry['times']:32} {entry['detail']}", flush=True)
    print(f"\n{len(entries)} files: {results.counts(entries)}")
    return int(any(entry["status"] != "right" for entry in entries))


def check(file: Path, launch: Path) -> results.Entry:
    """`right`: the verdict is the known one, and a verified kernel gives its reference."""
    times: list[str] = []
    start = time.process_time()

    def spent(what: str) -> None:
        nonlocal start
        times.append(f"{what} {time.process_time() - start:.2f} s")
        start = time.process_time()

    status, detail = "right", ""
    try:
        module = parse_ptx(file.read_text(), str(file))
        spent("parse")
        printed = print_ptx(module)
        if print_ptx(parse_ptx(printed)) != printed:
            return {"status": "printed", "detail": "printing is not stable", "times": ""}
        description = match(load(launch), module)
        start = time.process_time()
        _, report = verify_launch(module, description)
        spent("verify")
        faults = [f for f in report.faults if f.policy != "strict"]
        detail = "; ".join([f"{f.kind}: {f.message}" for f in faults[:2]] + report.unknown[:2])
        wanted = FAULTS.get(file.stem)
        found = {str(f.kind) for f in faults} or {str(report.verdict)}
        if found != {wanted or str(Verdict.VERIFIED)}:
            status = ", ".join(sorted(found))
        if report.verdict is Verdict.VERIFIED:
            before = materialise(description)
            expected = reference(description, before)
            for schedule in SCHEDULES:
                after = run(module, description, schedule, before)
                wrong = [
                    f"{d.name}: {d.wrong}"
                    for d in compare(description, after.tensors, expected)
                    if not d.ok
                ]
                wrong += [f"{f.kind}: {f.message}" for f in after.faults if f.policy != "strict"]
                if wrong:
                    status, detail = "values", f"{schedule}: {wrong[0]}"
            spent("run")
    except XttirError as error:
        status, detail = type(error).__name__, str(error)
    return {"status": status, "detail": detail[:200], "times": ", ".join(times)}


if __name__ == "__main__":
    raise SystemExit(main())
