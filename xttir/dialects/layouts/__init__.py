"""Layouts: how the elements of a tensor lie in registers, lanes, warps, and in memory."""
