"""Run a child process and say what it cost: CPU seconds (user + system) and peak memory.

Wall time on a shared machine says little, so the kernel's own accounting of the child is read
(`os.wait4`). Peak memory is the child's largest resident set.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Sample:
    """One run of a child. `cpu` and `wall` in seconds, `peak` in bytes, `output` its last lines.

    `inside`: CPU seconds that the script itself measured around its launches, or None.
    """

    cpu: float
    wall: float
    peak: int
    code: int
    output: str = ""
    inside: float | None = None


@dataclass
class Cost:
    """Several runs of the same command."""

    cpu: list[float] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)
    peak: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.cpu)

    @property
    def memory(self) -> int:
        return max(self.peak)

    def add(self, sample: Sample) -> None:
        if sample.code:
            self.failures.append(f"exit {sample.code}: {sample.output}")
        else:
            self.cpu.append(sample.cpu)
            self.peak.append(sample.peak)
            if sample.inside is not None:
                self.inside.append(sample.inside)

    def to_json(self) -> dict:
        return asdict(self)


def run_once(command: list[str], environment: dict[str, str], timeout: float) -> Sample:
    """Run `command` to its end. A child that outlives `timeout` (seconds) counts as failed."""
    with tempfile.TemporaryFile() as sink, tempfile.NamedTemporaryFile("r") as times:
        started = time.perf_counter()
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment | {"BENCH_TIMES": times.name},
            cwd=tempfile.gettempdir(),
        )
        status, usage = _wait(child, started + timeout)
        wall = time.perf_counter() - started
        sink.seek(max(0, sink.seek(0, os.SEEK_END) - 2000))
        text = sink.read().decode(errors="replace").strip()
        inside = [float(line) for line in times]
    lines = " | ".join(text.splitlines()[-3:])
    cpu = usage.ru_utime + usage.ru_stime
    code = os.waitstatus_to_exitcode(status)
    return Sample(cpu, wall, usage.ru_maxrss * 1024, code, lines, sum(inside) if inside else None)


def _wait(child: subprocess.Popen, deadline: float):
    """Reap `child` with its resource usage; kill it at `deadline` (of `time.perf_counter`)."""
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return status, usage
        if time.perf_counter() > deadline:
            child.kill()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            return status, usage
        time.sleep(0.02)


def kernel_script(name: str) -> Path:
    return Path(__file__).parent / "kernels" / f"{name}.py"
