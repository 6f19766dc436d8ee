"""`ub`: upstream's ops, under the name that the other dialects have here."""

from xdsl.dialects.ub import UB, PoisonAttr, PoisonOp, UnreachableOp

__all__ = ["UB", "PoisonAttr", "PoisonOp", "UnreachableOp"]
