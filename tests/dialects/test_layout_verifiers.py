"""Layouts, memory descriptors and the ops on them: accepted where Triton accepts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dialects.triton_oracle import Oracle
from xttir.diagnostics import InputError
from xttir.frontends.mlir import parse_module

DATA = Path(__file__).parent.parent / "data/dialects"
FRAME = (DATA / "layout_verifier_frame.mlir").read_text()
CASES = [
    line.split("\t")
    for line in (DATA / "layout_verifier_cases.txt").read_text().splitlines()
    if not line.startswith("#")
]


def module(kind: str, case: str) -> str:
    """The module that holds a case."""
    if kind == "attribute":
        return f"module attributes {{tt.x = {case}}} {{}}\n"
    if kind == "type":
        return f"module {{ tt.func private @f({case}) }}\n"
    attributes, _, body = case.rpartition(" ;; ")
    attributes = attributes or '"ttg.num-ctas" = 1 : i32'
    return FRAME.replace("@ATTRS@", attributes).replace("@BODY@", body)


@pytest.mark.parametrize(
    ("kind", "verdict", "message", "case"), CASES, ids=[c[3][:60] for c in CASES]
)
def test_verdict(kind: str, verdict: str, message: str, case: str) -> None:
    text = module(kind, case)
    if verdict == "accept":
        parse_module(text, "case.mlir")
        return
    with pytest.raises(InputError) as error:
        parse_module(text, "case.mlir")
    assert error.value.what == message
    assert error.value.location is not None
    line = error.value.location.line
    assert line == 1 or "@BODY@" in FRAME.splitlines()[line - 1]


def test_triton_agrees(oracle: Oracle) -> None:
    oracle.need("tt.cache_policy")
    different = [
        case
        for kind, verdict, _, case in CASES
        if (oracle.parse(module(kind, case)) is None) != (verdict == "reject")
    ]
    assert different == []


@pytest.mark.parametrize(
    "text",
    [
        "#ttg.linear<{register=[[1],[4]],lane=[],warp=[],block=[]}>",
        "#ttg.partitioned_shared<{numPartitions=1,numGroups=1,partitionDim=0,partitionLayout="
        "#ttg.swizzled_shared<{vec=1,perPhase=1,maxPhase=1,order=[0,1]}>}>",
    ],
)
def test_what_triton_crashes_on(text: str) -> None:
    with pytest.raises(InputError):
        parse_module(module("attribute", text))


def test_there_are_enough_of_both() -> None:
    verdicts = [verdict for _, verdict, _, _ in CASES]
    assert verdicts.count("accept") > 60
    assert verdicts.count("reject") > 90
