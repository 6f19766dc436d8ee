"""How long the verification of a warp-specialised kernel takes, and how it grows with the trace.

Triton's persistent matrix product and attention for compute capability 10.0 are compiled from the
scripts of tests/data, at several sizes. Cost: CPU time of `xttir verify KERNEL --launch L` as a
whole; growth: of trace and verdict alone, in one process that does both sizes in turns.
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
repeat, *files = sys.argv[1:]
kernels = [
    (parse_ptx(open(ptx).read(), ptx), load(launch))
    for ptx, launch in zip(files[::2], files[1::2])
]
best = [1e9] * len(kernels)
for _ in range(int(repeat) + 1):
    for n, kernel in enumerate(kernels):
        start = time.process_time()
        verify_launch(*kernel)
        best[n] = min(best[n], time.process_time() - start)
print(*best)
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
    small, large = inside([found[k] for k in DOUBLED], repeat)
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


def inside(kernels: list[tuple[Path, Path]], repeat: int) -> list[float]:
    """CPU seconds of trace and verdict, by kernel; in turns, as a machine's speed varies."""
    files = [str(file) for pair in kernels for file in pair]
    command = [sys.executable, "-c", INSIDE, str(repeat), *files]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(word) for word in ended.stdout.split()]
