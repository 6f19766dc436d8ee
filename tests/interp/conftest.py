"""Numeric tests run as the executor runs ops: overflow and NaN are results, not warnings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _quiet_floats() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield
