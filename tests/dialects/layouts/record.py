"""Records Triton's layouts of random encodings: `python -m tests.dialects.layouts.record`.

The file that it writes lets the layouts be tested where Triton is not installed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from tests.dialects.layouts.strategies import DISTRIBUTED, MEMORY, Case
from tests.dialects.layouts.triton_layouts import LayoutOracle

FILE = Path(__file__).parents[2] / "data" / "dialects" / "layouts.triton39.json"
PER_FAMILY = 12


def examples(strategy: SearchStrategy[Case]) -> list[Case]:
    """The same random cases at every call."""
    cases: dict[Case, None] = {}

    @seed(39)
    @settings(
        max_examples=4 * PER_FAMILY,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(strategy)
    def collect(case: Case) -> None:
        cases[case] = None

    collect()
    return list(cases)


def main() -> None:
    oracle = LayoutOracle()
    recorded: list[dict[str, Any]] = []
    for family, strategy in (DISTRIBUTED | MEMORY).items():
        cases = examples(strategy)
        # Later examples are the larger ones.
        for case in cases[-PER_FAMILY:]:
            layout = oracle.layout(case.encoding, case.shape)
            assert layout is not None, case
            recorded.append(
                {
                    "family": family,
                    "encoding": case.encoding,
                    "shape": case.shape,
                    "ins": layout.ins,
                    "outs": layout.outs,
                }
            )
    lines = ",\n".join(json.dumps(entry) for entry in recorded)
    FILE.write_text(f"[\n{lines}\n]\n")
    print(f"{len(recorded)} layouts in {FILE}")


if __name__ == "__main__":
    main()
