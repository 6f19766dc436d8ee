"""Whether a conflict at an address that depends on data is sure to be one for some data.

A footprint with bounds stands for all places that an access may touch. Whether two accesses touch
one place is certain (for some data that keep to the declared ranges) if each is where it is known
to be, or is decided by a datum of its own all of whose values are possible. Otherwise what is known
of the addresses is too little: the question is left open.
"""

from __future__ import annotations

import numpy as np

from xttir.analyses.events import Bounds

VAGUE = "data that addresses depend on: give the tensors that they are read from an `init`"


def selected(bounds: Bounds | None, rows: np.ndarray, chosen: slice) -> Bounds | None:
    """The bounds of some rows: a part of the event's lanes, and of them those that `rows` says."""
    if bounds is None or bounds.first is None:
        return bounds

    def part(array: np.ndarray | None) -> np.ndarray | None:
        if array is None or array.shape[0] == 1:
            return array
        return array[chosen][rows]

    return Bounds(
        part(bounds.first), part(bounds.last), bounds.step, part(bounds.datum), bounds.size
    )


def certain(
    x: Bounds | None, x_row: int, y: Bounds | None, y_row: int, place: int, period: int
) -> bool:
    """Whether two accesses touch one place for some data. `place`: one in both footprints, modulo
    `period` as the bounds count it."""
    place %= period
    data = [_datum(b, row, place) for b, row in ((x, x_row), (y, y_row))]
    if None in data:
        return False
    return 0 in data or data[0] != data[1]


def _datum(bounds: Bounds | None, row: int, place: int) -> int | None:
    """The datum that decides to touch `place`; 0: that is known, None: it may be impossible."""
    if bounds is None:
        return 0
    if bounds.first is None or bounds.last is None or bounds.datum is None:
        return None
    first, last, datum = (
        int(a[row if a.shape[0] > 1 else 0]) for a in (bounds.first, bounds.last, bounds.datum)
    )
    inside = first <= place < last + bounds.size
    if not inside or (place - first) % max(bounds.step, 1) >= bounds.size or not datum:
        return None
    return datum
