"""Results kept in a file of JSON lines, so that a run can stop and go on, and their summary.

The last line of a key counts. Failures are grouped by cause: the first line of what they say, with
numbers, addresses and paths taken out.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

Entry = dict[str, Any]

GOOD = ("agree", "passed", "skipped")


def default_path(name: str) -> Path:
    folder = Path(tempfile.gettempdir()) / "xttir-conformance"
    folder.mkdir(exist_ok=True)
    return folder / f"{name}.jsonl"


def read(path: Path, key: tuple[str, ...]) -> dict[tuple, Entry]:
    """The last entry for every key, in order of first appearance."""
    found: dict[tuple, Entry] = {}
    for entry in read_lines(path):
        if entry["status"] != "started":
            found[tuple(entry[k] for k in key)] = entry
    return found


def read_lines(path: Path) -> list[Entry]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, entry: Entry) -> None:
    with path.open("a") as out:
        out.write(json.dumps(entry) + "\n")


def cause(entry: Entry) -> str:
    """What went wrong, such that equal causes read the same."""
    text = entry.get("detail") or ""
    if entry["status"] == "fault" and entry.get("faults"):
        text = entry["faults"][0]
    if entry["status"] == "unsupported":
        text = text.split(" at /")[0]
    first = next((line for line in text.splitlines() if line.strip()), "no message")
    first = re.sub(r"(/[\w.+-]+)+/", "", first)
    first = re.sub(r"0x[0-9a-fA-F]+", "ADDRESS", first)
    first = re.sub(r"(?<![\w%.])-?\d+(\.\d+)?(e[+-]?\d+)?(?!\w)", "N", first)
    return f"{entry['status']}: {first[:160]}"


def by_cause(entries: list[Entry], name: str, limit: int = 4) -> str:
    """Failures grouped by cause, the commonest first, with a few names each."""
    groups: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        if entry["status"] not in GOOD:
            groups[cause(entry)].append(entry[name] if name in entry else str(entry))
    lines = []
    for text, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        more = f" and {len(names) - limit} more" if len(names) > limit else ""
        lines.append(f"{len(names):5d}  {text}")
        lines.append(f"       {', '.join(names[:limit])}{more}")
    return "\n".join(lines)


def counts(entries: list[Entry]) -> str:
    found = Counter(entry["status"] for entry in entries)
    return ", ".join(f"{n} {status}" for status, n in found.most_common())
