"""PTX text to the `ptx` dialect and back."""

from xttir.frontends.ptx.parser import parse_ptx

__all__ = ["parse_ptx"]
