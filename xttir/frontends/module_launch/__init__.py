"""Launches of kernels in Triton's IR: what `xttir run` and `xttir validate` execute modules with.

A launch is a `LaunchDescription`, as for PTX, with one parameter for every parameter of the
`tt.func`. `describe` makes one from a signature and the arguments that are given, drawing the rest;
`find_sizes` gives a size to buffers that have none, from what the kernel accesses; `bind` puts the
data into memory and gives the `Launch` that the executor runs.
"""

from xttir.frontends.module_launch.arguments import describe, split_argument
from xttir.frontends.module_launch.binding import ModuleLaunch, bind
from xttir.frontends.module_launch.signature import (
    Parameter,
    find_function,
    functions,
    parameters,
)
from xttir.frontends.module_launch.sizes import find_sizes

__all__ = [
    "ModuleLaunch",
    "Parameter",
    "bind",
    "describe",
    "find_function",
    "find_sizes",
    "functions",
    "parameters",
    "split_argument",
]
