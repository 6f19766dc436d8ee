"""How long the verification of a warp-specialised kernel takes, and how it grows with the trace.

Triton's persistent matrix product and attention for compute capability 10.0 are compiled from the
scripts of tests/data, at several sizes. Cost: CPU time of `xttir verify KERNEL --launch L` as a
whole; growth: of trace and verdict alone, in one process that has seen the kernel before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.report import Row

SCRIPTS = Path(__file__).parents[1] / "tests" / "data" / "scripts"
KERNELS = {"matmul": "matmul_persistent", "attention": "attention"}
LIMITS = {512: 10.0, 8192: 90.0}
"""CPU seconds by K (attention: length of the sequence)."""
GROWTH = 2.2
DOUBLED = (2048, 4096)
MEMORY = 2e9

INSIDE = """
import sys, time
from xttir.analyses.launches import verify_launch
from xttir.frontends.launch_description import load
from xttir.frontends.ptx import parse_ptx
module = parse_ptx(open(sys.argv[1]).read(), sys.argv[1])
launch, best = load(sys.argv[2]), 1e9
for _ in range(int(sys.argv[3]) + 1):
    start = time.process_time()
    _, report = verify_launch(module, launch)
    best = min(best, time.process_time() - start)
print(report.verdict, best)
"""


def rows(repeat: int) -> list[Row]:
    """The rows of both kernels; one that says why, where Triton is not installed."""
    out: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, script in KERNELS.items():
            found: dict[int, tuple[Path, Path]] = {}
            for size in (512, *DOUBLED, 8192):
                pair = capture(script, size, Path(folder) / f"{name}{size}")
                if isinstance(pair, str):
                    out.append(Row(f"verify-{name}", "not captured", None, "", "", None, pair))
                    break
                found[size] = pair
            else:
                out += _rows(name, found, repeat)
    return out


def capture(script: str, size: int, folder: Path) -> tuple[Path, Path] | str:
    """(PTX, launch description) of a script's launch, or why there are none."""
    command = [sys.executable, "-m", "xttir", "verify", "--every-schedule", "--cc", "100"]
    command += ["--dump-launch", str(folder)]
    command += [str(SCRIPTS / f"{script}.py"), str(size), "ws"]
    ended = subprocess.run(command, capture_output=True, text=True)
    found = sorted(folder.glob("*.launch.json")) if folder.exists() else []
    if not found:
        return (ended.stderr.strip().splitlines() or ["no launch"])[-1][:100]
    return next(folder.glob("*.ptx")), found[0]


def _rows(name: str, found: dict[int, tuple[Path, Path]], repeat: int) -> list[Row]:
    out = []
    for size, limit in LIMITS.items():
        seconds, memory, verdict = whole(*found[size])
        fine = seconds <= limit and memory <= MEMORY and verdict == 0
        note = f"{memory / 1e6:.0f} MB, exit code {verdict}"
        out.append(Row(f"verify-{name}", f"K={size}", seconds, "s", f"<= {limit:g}", fine, note))
    small, large = (inside(*found[k], repeat) for k in DOUBLED)
    ratio = large / small
    note = f"{small:.2f} s, {large:.2f} s"
    out.append(Row(f"verify-{name}", "twice K", ratio, "x", f"<= {GROWTH}", ratio <= GROWTH, note))
    return out


def whole(ptx: Path, launch: Path) -> tuple[float, float, int]:
    """CPU seconds, peak bytes and exit code of the command."""
    command = [sys.executable, "-m", "xttir", "verify", str(ptx), "--launch", str(launch)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, process.returncode


def inside(ptx: Path, launch: Path, repeat: int) -> float:
    """CPU seconds of trace and verdict."""
    command = [sys.executable, "-c", INSIDE, str(ptx), str(launch), str(repeat)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(ended.stdout.split()[-1])
