"""What an op from outside says of its accesses to global memory, so that checks know of them.

The ops of `tt`, `ttg` and `ttng` are known to the interpreter by class. Any other op that loads or
stores global memory carries this trait, once per pointer; its interpreter function then makes the
accesses with `interp.memory_ops`, where bounds, initialisation and races are checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from xdsl.ir import Operation, SSAValue
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

AccessVerb = Literal["load", "store", "atomic"]


@dataclass(frozen=True)
class GlobalAccess(OpTrait):
    """The op accesses what operand `operand` (a pointer, a tensor of pointers, a descriptor) points
    to. `verb`: "load", "store", or "atomic" for an atomic read-modify-write of it."""

    verb: AccessVerb
    operand: int = 0

    def verify(self, op: Operation) -> None:
        if self.operand >= len(op.operands):
            raise VerifyException(f"accesses operand {self.operand}, which it does not have")


def global_accesses(op: Operation) -> Iterator[tuple[AccessVerb, SSAValue]]:
    """The accesses that an op declares: what it does, through which operand."""
    for trait in op.get_traits_of_type(GlobalAccess):
        yield trait.verb, op.operands[trait.operand]
