"""What validating a miscompiled program through all stages costs, over the same by ttsem.

The program is that of triton#11519, which needs Triton 3.8: `XTTIR_BENCH_TRITON_38` names a Python
with xttir and that release, `XTTIR_BENCH_TTSEM` one with ttsem, whose `demo --live` validates the
same program. Start-up is included, CPU seconds of user and system, the least of several runs in
turn. Both must find the fault.
"""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

from benchmarks.peers import TTSEM_VARIABLE
from benchmarks.report import Row

PYTHON_VARIABLE = "XTTIR_BENCH_TRITON_38"
ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "tests" / "data" / "refine" / "report_11519.py"
LIMIT = 1 / 3
PASS = "tritongpu-fuse-nested-loops"


def rows(repeat: int) -> list[Row]:
    """One row: the ratio."""
    what, target = "triton#11519, every pass: xttir / ttsem", f"<= {LIMIT:.2f}"
    ours, theirs = os.environ.get(PYTHON_VARIABLE, ""), os.environ.get(TTSEM_VARIABLE, "")
    if not ours or not theirs:
        note = f"set {PYTHON_VARIABLE} and {TTSEM_VARIABLE}"
        return [Row("validate", what, None, "x", target, None, note)]
    commands = (
        [ours, "-m", "xttir", "validate", "-o", "-", str(SCRIPT)],
        [theirs, "-m", "ttsem", "demo", "--live"],
    )
    least = [float("inf")] * 2
    for _ in range(max(2, repeat)):
        for n, command in enumerate(commands):
            seconds, text = _cpu(command)
            if PASS not in text:
                last = " | ".join(text.strip().splitlines()[-2:])
                return [Row("validate", what, None, "x", target, None, last)]
            least[n] = min(least[n], seconds)
    ratio = least[0] / least[1]
    note = f"{least[0]:.2f} s, {least[1]:.2f} s of CPU time"
    return [Row("validate", what, ratio, "x", target, ratio <= LIMIT, note)]


def _cpu(command: list[str]) -> tuple[float, str]:
    """CPU seconds of a child and of its children, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, done.stdout + done.stderr
