"""Turn measurements into rows with a verdict each, and rows into a table or JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median

from benchmarks.cases import START_UP_LIMIT, Case
from benchmarks.measure import Cost
from benchmarks.session import Measured


@dataclass(frozen=True)
class Row:
    """One target. `holds` is None where nothing is asked or a side could not be measured."""

    case: str
    what: str
    value: float | None
    unit: str
    target: str
    holds: bool | None
    note: str = ""


def rows_of(case: Case, measured: dict[str, Measured]) -> list[Row]:
    """The rows of one case: the net cost, a ratio for each other peer, memory, checks."""
    rows = [_cost_row(case, entry) for entry in measured.values()]
    ours = measured.get("xttir")
    if ours is None or ours.failed:
        return rows
    for name, entry in measured.items():
        if name != "xttir":
            rows.append(_ratio_row(case, ours, entry))
    if case.tensors:
        peak, limit = ours.busy.memory, case.memory_limit
        rows.append(
            Row(case.name, "peak memory", peak / 1e6, "MB", f"<= {limit / 1e6:.0f}", peak <= limit)
        )
    if ours.unchecked is not None:
        note = "; ".join(ours.unchecked)
        rows.append(Row(case.name, "all checks done", None, "", "yes", not ours.unchecked, note))
    return rows


def _cost_row(case: Case, entry: Measured) -> Row:
    if entry.failed:
        return Row(case.name, f"{entry.peer} cost", None, "s", "", None, entry.failed)
    launches = case.launches - case.base
    note = f"median {1e3 * entry.net(median) / launches:.3g} ms, whole processes differ by "
    note += f"{1e3 * entry.outside() / launches:.3g} ms, peak {_mb(entry.busy)}"
    limit = case.per_launch if entry.peer == "xttir" else None
    each = entry.net() / launches
    return Row(
        case.name,
        f"{entry.peer} net CPU a launch",
        1e3 * each,
        "ms",
        f"<= {1e3 * limit:g}" if limit else "",
        each <= limit if limit else None,
        note,
    )


def _ratio_row(case: Case, ours: Measured, other: Measured) -> Row:
    what = f"{other.peer} / xttir"
    if other.failed:
        return Row(case.name, what, None, "x", "", None, f"{other.peer} failed")
    ratio = other.net() / ours.net()
    asked = f">= {case.target:g}" if case.target else ""
    holds = ratio >= case.target if case.target else None
    note = f"of medians {other.net(median) / ours.net(median):.1f}"
    return Row(case.name, what, ratio, "x", asked, holds, note)


def start_up_rows(costs: dict[str, Cost]) -> list[Row]:
    """The start-up of each peer over that of importing torch and Triton."""
    rows = []
    plain = costs["python"]
    for name, cost in costs.items():
        failure = next(iter([*cost.failures, *plain.failures]), "")
        if failure:
            rows.append(Row("start-up", name, None, "x", "", None, failure))
            continue
        ratio = cost.best / plain.best
        ours = name == "xttir"
        rows.append(
            Row(
                "start-up",
                f"{name} / importing torch and triton",
                ratio,
                "x",
                f"<= {START_UP_LIMIT}" if ours else "",
                ratio <= START_UP_LIMIT if ours else None,
                f"{cost.best:.2f} s, peak {_mb(cost)}",
            )
        )
    return rows


def _mb(cost: Cost) -> str:
    return f"{cost.memory / 1e6:.0f} MB"


def as_table(rows: list[Row]) -> str:
    """A plain text table, one line a row, the verdict last but one."""
    head = ("case", "what", "value", "target", "holds", "note")
    word = {True: "yes", False: "NO", None: ""}
    body = [
        (
            row.case,
            row.what,
            "" if row.value is None else f"{row.value:.3g} {row.unit}",
            row.target,
            word[row.holds],
            row.note[:110],
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [head, tuple("-" * width for width in widths), *body]
    ]
    return "\n".join(lines)


def as_json(rows: list[Row], settings: dict) -> dict:
    return {"settings": settings, "rows": [asdict(row) for row in rows]}
