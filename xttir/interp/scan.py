"""`tt.scan`: the scan of values, with regions recognised as for `tt.reduce`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xttir.interp.numerics import fold


def scan_values(
    arrays: Sequence[np.ndarray],
    axis: int,
    combine: fold.Combine,
    reverse: bool = False,
    name: str | None = None,
) -> fold.Arrays:
    """Inclusive scan of values (b, *s) along `axis` (counting the batch axis), of full extent.

    `combine` takes and returns tuples of arrays (b, ...), one element for each pair; its left
    operands are the earlier elements, the later ones if `reverse`. `name`: from `match_combine`,
    or None. Returns arrays (b, *s).
    """
    if name is not None:
        return fold.scan_named(name, arrays, axis, reverse)
    return fold.scan_any(arrays, axis, combine, reverse)
