"""PTX text to the `ptx` dialect and back."""

from xttir.frontends.ptx.parser import parse_ptx
from xttir.frontends.ptx.printer import print_ptx

__all__ = ["parse_ptx", "print_ptx"]
