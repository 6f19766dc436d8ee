"""`python -m tests.docs.update [--fill] [FILE...]`: write what commands print now into documents.

What a document cuts with `...` stays as it is where it still matches. Commands with nothing below
them stay so, unless `--fill` is given.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docs import blocks


def updated(text: str, fill: bool = False) -> str:
    """`text` with the outputs of its console blocks as they are now."""
    pieces, position = [], 0
    with tempfile.TemporaryDirectory() as folder:
        shell = blocks.Shell(Path(folder))
        for block in blocks.blocks_of(text):
            if block.language == "console":
                pieces += [text[position : block.start], _console(shell, block, fill)]
                position = block.end
            elif (name := blocks.file_of(block)) is not None:
                file = Path(folder, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.body)
    return "".join(pieces) + text[position:]


def _console(shell: blocks.Shell, block: blocks.Block, fill: bool) -> str:
    lines = []
    for step in blocks.steps_of(block.body):
        printed = shell.run(step.command)
        keep = blocks.matches(step.shown, printed, exactly=True) and not (
            fill and not step.shown.strip()
        )
        lines.append(f"$ {step.command}\n{step.shown if keep else _cut(printed, step.shown)}")
    return "".join(lines)


def _cut(printed: str, shown: str) -> str:
    """`printed`, with those lines as shown before that were cut and still match."""
    cut = [line for line in shown.splitlines() if "..." in line and line.strip() != "..."]
    lines = []
    for line in printed.splitlines():
        lines.append(next((old for old in cut if blocks.matches(old, line)), line) + "\n")
    return "".join(lines)


if __name__ == "__main__":
    named = [Path(word) for word in sys.argv[1:] if not word.startswith("-")]
    for path in named or blocks.documents():
        before = path.read_text()
        after = updated(before, fill="--fill" in sys.argv)
        if after != before:
            path.write_text(after)
            print(f"updated {path}")
