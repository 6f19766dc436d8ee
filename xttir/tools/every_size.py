"""`xttir verify --every-size`: the kernels that a script launches, for any grid and sizes.

Contracts are made as launches go by, since they read sizes and integer data; what is proved from
them comes when the script has ended, a kernel at a time.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xttir.diagnostics import Unsupported, Verdict
from xttir.dialects.locations import location_of
from xttir.tools.static_report import Outcome, StaticReport

if TYPE_CHECKING:
    from xttir.analyses.sizes.contract import Contract
    from xttir.tools.verify import Settings


class EverySizes:
    """The kernels of a script, each with the contracts of its launches that differ."""

    def __init__(self, report: StaticReport, settings: Settings):
        self.report = report
        self.settings = settings
        self.contracts: list[tuple[int, Contract]] = []
        self.seen: set[tuple[int, str, tuple[str, ...]]] = set()

    def take(self, launch: Any) -> None:
        """Note a launch that is about to run."""
        from xttir.analyses.sizes.prove import contract_of

        try:
            contract = contract_of(launch)
        except Unsupported as error:
            self._unsupported(error)
            return
        key = (id(launch.module), launch.kernel, tuple(contract.text))
        if key not in self.seen:
            self.seen.add(key)
            self.contracts.append((launch.index, contract))

    def prove(self) -> None:
        """Decide about all of them; the outcomes go into the report."""
        from xttir.analyses.sizes.assume import add_words

        for index, contract in self.contracts:
            if self.settings.assume:
                add_words(contract, self.settings.assume)
            try:
                self._prove(index, contract)
            except Unsupported as error:
                self._unsupported(error)
        if self.contracts:
            self.report.assume(
                ["every size: sizes and strides are what the contract of the kernel says of them"]
            )

    def _prove(self, index: int, contract: Contract) -> None:
        from xttir.analyses.sizes.prove import function_of, prove

        launch = contract.launch
        assert launch is not None
        began = time.perf_counter()
        file = location_of(function_of(launch)).file
        outcome = Outcome(launch.kernel, file, "every size", index=index, every_size=True)
        outcome.level = "ttir"
        self.report.outcomes.append(outcome)
        found = prove(contract, self.settings.timeout)
        outcome.seconds = time.perf_counter() - began
        self.report.seconds += outcome.seconds
        outcome.done = {_NAMES.get(kind, kind): n for kind, n in found.asked.items()}
        outcome.faults = len(found.faults)
        outcome.finished = not found.open
        outcome.result = ["contract: " + "; ".join(found.contract)] if found.contract else []
        if found.only and found.verdict is not Verdict.FAULT:
            outcome.result.append("only where, as in the launch: " + "; ".join(found.only))
        self.report.faults += found.faults
        for place, why in found.open:
            where = f"{Path(place.file).name}:{place.line}"
            text = f"every size of {launch.kernel} at {where}: {why}"
            # Next to a fault of the same kernel it is no news that not all of it can be proved.
            if found.verdict is Verdict.FAULT:
                outcome.result.append(f"not decided: {where}: {why}")
            else:
                self.report.counts.skip(text)

    def _unsupported(self, error: Unsupported) -> None:
        from xttir.tools.verify import problem

        found = problem(error)
        if found not in self.report.unsupported:
            self.report.unsupported.append(found)


_NAMES = {
    "out-of-bounds": "accesses",
    "race": "pairs of accesses",
    "int-overflow": "integers that could wrap",
}
