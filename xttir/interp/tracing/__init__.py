"""Traces of modules of Triton's GPU dialects: what the analyses of schedules read.

A kernel is run once with data unknown: scalars that control, addresses and barriers need are
numbers, everything else is `values.UNKNOWN`. Every op that touches shared or tensor memory or
synchronises gives the events (`analyses.events`) of what it is lowered to, for all threads of its
warps at once.
"""

from xttir.interp.tracing.launch import Launch
from xttir.interp.tracing.tracer import trace_module

__all__ = ["Launch", "trace_module"]
