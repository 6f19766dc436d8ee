"""All ops of `ttng`: imported when a module has the first of them."""

from __future__ import annotations

from xttir.interp import launch_control, tensor_memory, tma, ttng_mma, ttng_sync
from xttir.interp.plan import Implementations


def register(implementations: Implementations) -> None:
    """Add the ops."""
    ttng_sync.register(implementations)
    tma.register(implementations)
    ttng_mma.register(implementations)
    tensor_memory.register(implementations)
    launch_control.register(implementations)
