"""What a kernel costs as TTGIR, over what it costs as TTIR, both with every check.

`conformance.ttgir_scripts` runs a script of `kernels/` in a child process: every launch as TTIR and
as TTGIR on the same memory, which must agree. The least CPU time of several runs counts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.report import Row

KERNELS = Path(__file__).parent / "kernels"
SCRIPTS = ("add", "softmax", "layer_norm", "matmul", "attention")
CAPABILITIES = (80, 90)
LIMIT = 2.0
RUNS = 9
"""Some kernels take ten milliseconds: fewer runs tell little of them."""

_TIMES = re.compile(r"CPU time: TTIR ([\d.]+) s, TTGIR ([\d.]+) s, ratio ([\d.]+)")


def rows(repeat: int) -> list[Row]:
    """A row for every script and compute capability."""
    return [_row(name, cc, max(RUNS, repeat)) for name in SCRIPTS for cc in CAPABILITIES]


def _row(name: str, cc: int, repeat: int) -> Row:
    what = f"{name}, cc {cc}: TTGIR / TTIR"
    command = [sys.executable, "-m", "conformance.ttgir_scripts", "--cc", str(cc)]
    command += ["--repeat", str(repeat), str(KERNELS / f"{name}.py")]
    path = os.pathsep.join([str(KERNELS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        cwd=Path(__file__).parent.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = _TIMES.search(done.stdout)
    if done.returncode or not found:
        lines = (done.stdout + done.stderr).strip().splitlines()
        return Row("ttgir", what, None, "x", f"<= {LIMIT:g}", None, " | ".join(lines[-2:]))
    before, after, ratio = (float(number) for number in found.groups())
    note = f"{1e3 * before:.0f} ms, {1e3 * after:.0f} ms"
    return Row("ttgir", what, ratio, "x", f"<= {LIMIT:g}", ratio <= LIMIT, note)
