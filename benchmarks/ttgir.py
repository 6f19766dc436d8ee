"""What a kernel costs as TTGIR, over what it costs as TTIR, both with every check.

`conformance.ttgir_scripts` runs a script in a child process: every launch as TTIR and as TTGIR on
the same memory, which must agree. The least CPU time of several runs counts: modules are compiled
once, and run often.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.report import Row

HERE = Path(__file__).parent
KERNELS = HERE / "kernels"
SCRIPTS = ("add", "softmax", "layer_norm", "matmul", "attention")
CAPABILITIES = (80, 90, 100)
SPECIALISED = HERE.parent / "tests" / "data" / "scripts"
"""Scripts of kernels with warp specialisation, for compute capability 100."""
LIMIT = 2.0
RUNS = 15
"""Some kernels take ten milliseconds: fewer runs tell little of them."""

_TIMES = re.compile(r"CPU time: TTIR ([\d.]+) s, TTGIR ([\d.]+) s, ratio ([\d.]+)")


def rows(repeat: int) -> list[Row]:
    """A row for every script and compute capability."""
    runs = max(RUNS, repeat)
    found = [
        _row(name, cc, [KERNELS / f"{name}.py"], runs) for name in SCRIPTS for cc in CAPABILITIES
    ]
    for words in ("matmul_persistent 512 ws", "attention 512 ws", "attention 512 causal ws"):
        name, *given = words.split()
        found.append(_row(words, 100, [SPECIALISED / f"{name}.py", *given], runs))
    return found


def _row(name: str, cc: int, script: list[str | Path], repeat: int) -> Row:
    what = f"{name}, cc {cc}: TTGIR / TTIR"
    command = [sys.executable, "-m", "conformance.ttgir_scripts", "--cc", str(cc)]
    command += ["--repeat", str(repeat), *map(str, script)]
    path = os.pathsep.join([str(KERNELS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        cwd=HERE.parent,
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
