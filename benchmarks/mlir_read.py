"""How fast Triton's IR is read, against xDSL's own parser with the same dialects.

The texts are those of real kernels under `$XTTIR_SHARED/corpus/triton` (default `../shared`), or
the few of the tests where that is absent: TTIR and TTGIR, pretty and generic. xDSL cannot read
location aliases that are defined at the end of a file, so both read texts without locations.
Neither verifies. CPU time of one process, both warm, least of several runs taken in turn.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from xdsl.context import Context
from xdsl.parser import Parser

from benchmarks.report import Row
from xttir.dialects.context import make_context
from xttir.dialects.syntax.parser import TTParser

ROOT = Path(__file__).parent.parent
KINDS = ("ttir.loc", "ttir.generic", "ttgir.loc", "ttgir.generic")
EVERY = 3
"""Of the corpus every third kernel is read."""
TARGET = 3.0

_PARENS = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"


def without_locations(text: str) -> str:
    """`text` without `loc(...)` and without aliases of locations."""
    text = re.sub(rf"^#loc\d* = loc{_PARENS}\n", "", text, flags=re.MULTILINE)
    return re.sub(rf" loc{_PARENS}", "", text)


def texts() -> dict[str, list[str]]:
    """The texts by kind."""
    shared = Path(os.environ.get("XTTIR_SHARED", ROOT.parent / "shared"))
    found = {kind: sorted(shared.glob(f"corpus/triton/*/*/{kind}.mlir"))[::EVERY] for kind in KINDS}
    if not any(found.values()):
        data = sorted((ROOT / "tests/data/dialects").glob("*triton39*.ttir"))
        found = {"ttir": data}
    return {
        kind: [without_locations(path.read_text()) for path in paths]
        for kind, paths in found.items()
        if paths
    }


def _cost(parser: Callable[[Context, str], Parser], context: Context, given: list[str]) -> float:
    start = time.process_time()
    for text in given:
        parser(context, text).parse_module()
    return time.process_time() - start


def rows(repeat: int) -> list[Row]:
    """A row for every kind of text: xDSL's cost over ours."""
    result: list[Row] = []
    for kind, given in texts().items():
        ours, theirs = make_context(), make_context()
        _cost(TTParser, ours, given)
        _cost(Parser, theirs, given[:1])
        ops = sum(1 for text in given for _ in TTParser(ours, text).parse_module().walk())
        pairs = [
            (_cost(TTParser, ours, given), _cost(Parser, theirs, given))
            for _ in range(max(1, repeat))
        ]
        mine, stock = (min(costs) for costs in zip(*pairs, strict=True))
        note = f"{ops} ops, {1e6 * mine / ops:.0f} us an op; xDSL {1e6 * stock / ops:.0f} us"
        ratio = stock / mine
        what = f"{kind}: xDSL / xttir"
        result.append(Row("mlir-read", what, ratio, "x", f">= {TARGET:g}", ratio >= TARGET, note))
    return result
