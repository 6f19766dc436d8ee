"""The Triton oracle, one for the session."""

from __future__ import annotations

import pytest

from tests.dialects.triton_oracle import Oracle


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """Triton's parser; tests are skipped where Triton is not installed."""
    return Oracle()
