"""`make demo`: three kernels that look right and run, and what xttir says about each.

Exits with 0 when every fault was found as it should be, with 1 otherwise.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Example:
    """`kinds`: the faults that must be found. `line`: the text of the line that must be named."""

    script: str
    title: str
    story: str
    kinds: frozenset[str]
    line: str


EXAMPLES = (
    Example(
        "softmax.py",
        "1. A softmax whose store has no mask",
        "Rows are 781 wide, blocks 1024: each program writes 243 elements that are not its own.\n"
        "Most land in the next row (a race: who writes last?), the last ones outside the tensor.",
        frozenset({"out-of-bounds", "race"}),
        "tl.store(out + row * stride + cols, result)",
    ),
    Example(
        "split_k.py",
        "2. A split-k matmul that adds without atomics",
        "Four programs add to each tile. They run together here, as on a GPU, and additions get\n"
        "lost. The difference below says that something is wrong; the report says what.",
        frozenset({"race"}),
        "tl.store(sums, tl.load(sums, mask=inside) + acc, mask=inside)",
    ),
    Example(
        "histogram.py",
        "3. A histogram counted into memory that nobody cleared",
        "torch.empty gives memory with whatever is in it; atomic_add reads it.",
        frozenset({"uninitialized"}),
        "tl.atomic_add(counts + bins, 1, mask=inside)",
    ),
)


def show(example: Example) -> bool:
    """Run one example, and return whether it was found out as it should be."""
    path = HERE / example.script
    print(f"\n{example.title}\n{'=' * len(example.title)}\n{example.story}\n")
    print(f"$ xttir sanitize {path.relative_to(HERE.parent)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "report.json")
        command = [sys.executable, "-m", "xttir", "sanitize", "--format", "json"]
        done = subprocess.run(
            [*command, "-o", str(output), str(path.relative_to(HERE.parent))], cwd=HERE.parent
        )
        report = json.loads(output.read_text()) if output.exists() else {"faults": []}
    print(f"exit code {done.returncode}", flush=True)
    source = path.read_text().splitlines()
    found = {
        fault["kind"]
        for fault in report["faults"]
        if any(example.line in source[place["line"] - 1] for place in fault["locations"])
    }
    return done.returncode == 1 and found == example.kinds


def main() -> int:
    print(
        "Three Triton kernels that compile, run and often give the right result.\n"
        "Each is run on the CPU from its IR, with every access checked. No GPU is used."
    )
    missed = [example.script for example in EXAMPLES if not show(example)]
    print()
    if missed:
        print(f"Not found as they should be: {', '.join(missed)}")
        return 1
    print(
        "All three were found, each at its line. Try it on your own:\n"
        "  .venv/bin/xttir sanitize SCRIPT\n"
        "  .venv/bin/xttir sanitize pytest TESTS\n"
        "and see docs/tutorial.md."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
