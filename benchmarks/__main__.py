"""`python -m benchmarks`: measure xttir against its peers and say which targets hold.

Exit code 0 when every target that could be measured holds, 1 when one does not, 2 on bad usage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from benchmarks import cases, mlir_read, peers, ptx_read, ptx_verify, ttgir, validate
from benchmarks.report import Row, as_json, as_table, rows_of, start_up_rows
from benchmarks.session import Session, measure_case, measure_start_up

OTHERS = ("ttgir", "mlir-read", "ptx-read", "ptx-verify", "validate", "start-up")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    names = ", ".join([case.name for case in cases.CASES] + list(OTHERS))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default="", metavar="CASES", help=f"of {names}")
    parser.add_argument("--peers", default="", help="of xttir, ttsem, interpret (all)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each command (3)")
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of BLAS and torch; 0 leaves them alone (1)"
    )
    parser.add_argument(
        "--reuse", type=Path, metavar="FILE", help="keep the peers' costs there and reuse them"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the rows there (- for stdout)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    args = parse(arguments)
    only = [name.strip() for name in args.only.split(",") if name.strip()]
    try:
        named = [name for name in only if name not in OTHERS]
        chosen = cases.find(",".join(named)) if named or not only else ()
        runners, absent = peers.available(args.peers)
    except ValueError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2

    session = Session(max(1, args.repeat), args.threads, args.reuse)
    rows: list[Row] = []
    for case in chosen:
        session.say(case.name)
        rows += rows_of(case, measure_case(session, case, runners))
    if not only or "ttgir" in only:
        session.say("ttgir")
        rows += ttgir.rows(session.repeat)
    if not only or "mlir-read" in only:
        session.say("mlir-read")
        rows += mlir_read.rows(session.repeat)
    if not only or "ptx-read" in only:
        session.say("ptx-read")
        rows += ptx_read.rows(session.repeat)
    if not only or "ptx-verify" in only:
        session.say("ptx-verify")
        rows += ptx_verify.rows(session.repeat)
    if not only or "validate" in only:
        session.say("validate")
        rows += validate.rows(session.repeat)
    if not only or "start-up" in only:
        session.say("start-up")
        rows += start_up_rows(measure_start_up(session, runners))

    settings = {
        "repeat": session.repeat,
        "threads": args.threads,
        "reused": sorted(session.reused),
        "load": os.getloadavg()[0],
    }
    if args.json == "-":
        print(json.dumps(as_json(rows, settings), indent=1))
    else:
        print(as_table(rows))
        print(f"\nleast of {session.repeat} runs, {args.threads or 'default'} threads", end="")
        print(f"; reused earlier runs of {', '.join(session.reused)}" if session.reused else "")
        if args.json:
            Path(args.json).write_text(json.dumps(as_json(rows, settings), indent=1))
    for line in absent:
        print(f"note: {line}", file=sys.stderr)
    missed = [row for row in rows if row.holds is False]
    failed = [row for row in rows if row.case and row.value is None and row.unit]
    return 1 if missed or failed else 0


if __name__ == "__main__":
    sys.exit(main())
