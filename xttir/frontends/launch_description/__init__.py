"""Launch descriptions: grid, block, shared memory, tensors and parameters of a compiled kernel.

Read from JSON or TOML (`load`), from Python dicts (`from_dict`) or built from the dataclasses;
checked against the kernel they are for (`match`); turned into data (`materialise`) and into the
values that the kernel should give (`reference`).
"""

from xttir.frontends.launch_description.dtypes import DTYPES, DType, dtype
from xttir.frontends.launch_description.read import from_dict, load, schema
from xttir.frontends.launch_description.spec import (
    BytesParam,
    Im2col,
    LaunchDescription,
    Param,
    PointerParam,
    PointersParam,
    ScalarParam,
    TensorMapParam,
    TensorSpec,
    Tolerance,
    ValueParam,
)
from xttir.frontends.launch_description.values import Difference, compare, materialise, reference
from xttir.frontends.launch_description.write import dump, to_dict

__all__ = [
    "DTYPES",
    "BytesParam",
    "DType",
    "Difference",
    "Im2col",
    "LaunchDescription",
    "Param",
    "PointerParam",
    "PointersParam",
    "ScalarParam",
    "TensorMapParam",
    "TensorSpec",
    "Tolerance",
    "ValueParam",
    "compare",
    "dtype",
    "dump",
    "from_dict",
    "load",
    "materialise",
    "reference",
    "schema",
    "to_dict",
]
