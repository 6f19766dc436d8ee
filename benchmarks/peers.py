"""The ways to run one and the same Triton script with no GPU that are compared.

`xttir`: this project, all checks on. `ttsem`: the package of that name, installed in an
environment of its own whose Python is named by `XTTIR_BENCH_TTSEM`. `interpret`: Triton's own
interpreter on CPU tensors. `python`: no tool at all, for the start-up alone.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import kernel_script

TTSEM_VARIABLE = "XTTIR_BENCH_TTSEM"
_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Peer:
    """`command`: what stands before the script's path. `settings`: environment variables."""

    name: str
    command: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = ()

    def command_for(self, script: str, report: Path | None = None) -> list[str]:
        """The command line; `report` asks xttir for its JSON report (peers have none)."""
        extra = ["--format", "json", "-o", str(report)] if report and self.name == "xttir" else []
        return [*self.command, *extra, str(kernel_script(script))]

    def environment(self, launches: int, threads: int) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("XTTIR_", "TRITON_"))}
        cache = Path(tempfile.gettempdir()) / f"xttir-bench-{os.getuid()}" / self.name
        kept |= {"BENCH_LAUNCHES": str(launches), "TRITON_CACHE_DIR": str(cache)}
        folders = [kernel_script("add").parent, *([_ROOT] if self.name == "xttir" else [])]
        kept["PYTHONPATH"] = os.pathsep.join(map(str, folders))
        if threads:
            for library in ("OMP", "OPENBLAS", "MKL"):
                kept[f"{library}_NUM_THREADS"] = str(threads)
        return kept | dict(self.settings)

    def version(self, script: str) -> str:
        """What a stored measurement depends on: the script's text and the installed packages."""
        wanted = ["torch", "triton", "numpy", *(["ttsem"] if self.name == "ttsem" else [])]
        code = f"import importlib.metadata as m; print(*map(m.version, {wanted!r}))"
        found = subprocess.run([self.command[0], "-c", code], capture_output=True, text=True)
        text = hashlib.sha256(kernel_script(script).read_bytes()).hexdigest()[:12]
        return f"{found.stdout.strip()} {text}"


def available(names: str) -> tuple[list[Peer], list[str]]:
    """The peers named in a comma-separated list (all for an empty one), and why some are absent.

    Raises ValueError for a name that does not exist.
    """
    here = sys.executable
    rival = os.environ.get(TTSEM_VARIABLE, "")
    everyone = {
        "xttir": Peer("xttir", (here, "-m", "xttir", "sanitize")),
        "ttsem": Peer("ttsem", (rival, "-m", "ttsem.sanitize")),
        "interpret": Peer(
            "interpret", (here,), (("TRITON_INTERPRET", "1"), ("BENCH_DEVICE", "cpu"))
        ),
    }
    wanted = [name.strip() for name in names.split(",") if name.strip()] or list(everyone)
    unknown = [name for name in wanted if name not in everyone]
    if unknown:
        raise ValueError(f"no peer named {', '.join(unknown)}; known: {', '.join(everyone)}")
    absent = []
    if "ttsem" in wanted and not rival:
        wanted.remove("ttsem")
        absent.append(
            f"ttsem is left out: set {TTSEM_VARIABLE} to the Python of an environment that has it"
        )
    elif "ttsem" in wanted and not Path(rival).exists():
        raise ValueError(f"{TTSEM_VARIABLE} names {rival}, which does not exist")
    return [everyone[name] for name in wanted], absent


PYTHON = Peer("python", (sys.executable,))
