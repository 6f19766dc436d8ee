"""`cf`: upstream's ops, under the name that the other dialects have here."""

from xdsl.dialects.cf import AssertOp, BranchOp, Cf, ConditionalBranchOp, SwitchOp

__all__ = ["AssertOp", "BranchOp", "Cf", "ConditionalBranchOp", "SwitchOp"]
