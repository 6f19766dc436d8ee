"""Every example of the documentation does what the documentation says."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from tests.docs import blocks


@pytest.mark.parametrize(
    "document", blocks.documents(), ids=lambda path: str(path.relative_to(blocks.ROOT))
)
def test_examples(document: Path, tmp_path: Path) -> None:
    shell = blocks.Shell(tmp_path)
    for block in blocks.blocks_of(document.read_text()):
        place = f"{document.relative_to(blocks.ROOT)}:{block.line}"
        if block.language == "console":
            for step in blocks.steps_of(block.body):
                printed = shell.run(step.command)
                assert blocks.matches(step.shown, printed), difference(place, step, printed)
        elif (name := blocks.file_of(block)) is not None:
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.body)
        else:
            done = shell.python(block.body, f"block_{block.line}")
            assert done.code == 0, f"{place}:\n{done.stdout}{done.stderr}"


def difference(place: str, step: blocks.Step, printed: str) -> str:
    lines = difflib.unified_diff(
        step.shown.splitlines(), printed.splitlines(), "shown", "printed", lineterm=""
    )
    return f"{place}: $ {step.command}\n" + "\n".join(lines)


def test_outputs_are_compared() -> None:
    shown = "a\n...\nd in 0.10 s\n"
    assert blocks.matches(shown, "a\nb\nc\nd in 3.52 s\n")
    assert blocks.matches("a ... z\n", "a b z\n")
    assert not blocks.matches(shown, "a\nb\n")
    assert not blocks.matches("a\n", "a\nb\n")
    assert not blocks.matches("a.b\n", "axb\n")


def prose(document: Path) -> str:
    """The text without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)


def test_links_lead_somewhere() -> None:
    broken = [
        f"{document.relative_to(blocks.ROOT)}: {target}"
        for document in blocks.documents()
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose(document))
        if not (document.parent / target).exists()
    ]
    assert broken == []


def test_the_command_line_reference_is_complete() -> None:
    from xttir.tools.options import ALL_OPTIONS
    from xttir.tools.pytest_plugin import OPTIONS

    text = (blocks.ROOT / "docs/reference/cli.md").read_text()
    missing = [
        o.name for o in ALL_OPTIONS if f"`--{o.name}" not in text and f"--{o.name} " not in text
    ]
    missing += [o.env for o in ALL_OPTIONS if f"`{o.env}`" not in text]
    missing += [o.name for o in OPTIONS if f"`--xttir-{o.name}`, `xttir_{o.key}`" not in text]
    assert missing == []


def test_the_reference_of_checks_and_kinds_is_complete() -> None:
    from xttir.diagnostics import Kind
    from xttir.policy import CHECKS

    text = (blocks.ROOT / "docs/reference/checks.md").read_text()
    assert [name for name in (*CHECKS, *Kind) if f"`{name}`" not in text] == []


def test_the_reference_of_the_json_object_is_complete() -> None:
    from xttir.tools.json_report import schema

    text = (blocks.ROOT / "docs/reference/json.md").read_text()
    keys = [*schema()["properties"], *schema()["$defs"]["fault"]["properties"]]
    assert [key for key in keys if f"`{key}`" not in text] == []
