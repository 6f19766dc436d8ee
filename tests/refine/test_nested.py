"""Steps inside of passes: told apart by what a dump holds, and named where one is at fault."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.refine.planted import DATA, read
from xttir.refine import nested
from xttir.refine.pipeline import Applied
from xttir.refine.stages import Stage, validate

BANNER = "// -----// IR Dump Before X: {} ('builtin.module' operation) //----- //\n"
PIPELINE = "any(some-pass{options=1})"


def dump(*entries: tuple[str, str]) -> str:
    return "".join(banner + text + "\n" for banner, text in entries)


def before(pipeline: str, text: str) -> tuple[str, str]:
    return BANNER.format(pipeline), text


def after(step: str, text: str) -> tuple[str, str]:
    return f"// -----// SoftwarePipeliner internal IR Dump After: {step}\n", text


@pytest.mark.parametrize("form", ["pipeline", "steps"])
@pytest.mark.parametrize("middle", ["right", "wrong", "unreadable"])
def test_first_step_at_fault(form: str, middle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass of two steps, of which the first or the second goes wrong."""
    planted = read(DATA / "dropped_store_mask.mlir")
    text = {"right": planted.right, "wrong": planted.wrong, "unreadable": "module {\n  %\n}"}[
        middle
    ]
    first = before("some-pass{options=1}", planted.source)
    if form == "pipeline":
        log = dump(first, before("one{n=1}", planted.source), before("unknown<check>", text))
        log += dump(before("two", text))
    else:
        log = dump(first, after("one", text), after("two", planted.wrong))
    made = Stage("some-pass", planted.wrong, PIPELINE)
    monkeypatch.setattr(nested, "apply", lambda *args, **more: Applied([made], log))
    found = validate([Stage("", planted.source), made])
    assert found.first is not None
    inner = found.first.inner
    assert inner is not None
    assert inner.stage.name == ("one" if middle == "wrong" else "two")
    assert inner.unsure == (("one",) if middle == "unreadable" else ())


def test_a_pass_that_makes_something_else_is_not_looked_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planted = read(DATA / "dropped_store_mask.mlir")
    log = dump(before("some-pass", planted.source), after("one", planted.wrong))
    other = Applied([Stage("some-pass", planted.right, PIPELINE)], log)
    monkeypatch.setattr(nested, "apply", lambda *args, **more: other)
    made = Stage("some-pass", planted.wrong, PIPELINE)
    assert nested.inner_stages(Stage("", planted.source), made) == []


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_steps_of_the_pipeliner() -> None:
    text = (DATA.parent / "ring_of_two_readers.mlir").read_text()
    base = Stage("", text)
    from xttir.refine.pipeline import apply

    stage = apply(text, "tritongpu-pipeline{num-stages=3}").stages[-1]
    steps = nested.inner_stages(base, stage)
    assert [s.name for s in steps][:2] == ["LowerLoops", "ExpandLoops"]
    assert steps[-1].text == stage.text
