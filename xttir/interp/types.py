"""Element types as numpy dtypes.

Conventions for values (see docs/semantics.md):

* A value of shape S is an array of shape (b, *s): b is 1 (the same for all programs of the batch)
  or the number of active programs B; every s_i is 1 (the same along that axis) or S_i. So numpy
  broadcasting does what `tt.splat`, `tt.broadcast` and uniformity ask for, and costs nothing.
  Scalars have S = (), hence arrays of shape (b,).
* i1 is bool. Integers are signed numpy integers; unsigned ops view them as unsigned.
* f16, f32, f64 are numpy's; bf16 and the fp8 and fp4 types are ml_dtypes' dtypes. Arithmetic on
  anything narrower than f32 is done in f32 and rounded once.
* Integer tensors may be lazy (`affine.Index`), masks too (`affine.Box`), pointers are
  `memory.Pointer`. `@impl` functions get plain arrays for integers and masks: the executor makes
  lazy operands dense unless an affine rule takes them first.
"""

from __future__ import annotations

from functools import lru_cache

import ml_dtypes
import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Attribute

from xttir.diagnostics import Unsupported

BF16 = np.dtype(ml_dtypes.bfloat16)
F8E5M2 = np.dtype(ml_dtypes.float8_e5m2)
F8E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
F8E4M3FNUZ = np.dtype(ml_dtypes.float8_e4m3fnuz)
F8E5M2FNUZ = np.dtype(ml_dtypes.float8_e5m2fnuz)
F8E4M3B11FNUZ = np.dtype(ml_dtypes.float8_e4m3b11fnuz)

FLOAT_DTYPES: dict[str, np.dtype] = {
    "f16": np.dtype(np.float16),
    "bf16": BF16,
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f8E5M2": F8E5M2,
    "f8E4M3FN": F8E4M3FN,
    "f8E4M3FNUZ": F8E4M3FNUZ,
    "f8E5M2FNUZ": F8E5M2FNUZ,
    "f8E4M3B11FNUZ": F8E4M3B11FNUZ,
}

INT_DTYPES: dict[int, np.dtype] = {
    1: np.dtype(bool),
    8: np.dtype(np.int8),
    16: np.dtype(np.int16),
    32: np.dtype(np.int32),
    64: np.dtype(np.int64),
}

SIGNED_TO_UNSIGNED = {np.dtype(f"int{n}"): np.dtype(f"uint{n}") for n in (8, 16, 32, 64)}


def element_type(ty: Attribute) -> Attribute:
    """The element type of a tensor type; a scalar type itself."""
    return ty.element_type if isinstance(ty, builtin.TensorType) else ty


def shape_of(ty: Attribute) -> tuple[int, ...]:
    """The shape of a tensor type; () for scalars."""
    return tuple(ty.get_shape()) if isinstance(ty, builtin.TensorType) else ()


@lru_cache(maxsize=1024)
def numpy_dtype(ty: Attribute) -> np.dtype:
    """The numpy dtype of a scalar type, or of the elements of a tensor type."""
    ty = element_type(ty)
    if isinstance(ty, builtin.IntegerType):
        if ty.width.data in INT_DTYPES:
            return INT_DTYPES[ty.width.data]
    elif isinstance(ty, builtin.IndexType):
        return INT_DTYPES[64]
    elif str(ty) in FLOAT_DTYPES:
        return FLOAT_DTYPES[str(ty)]
    raise Unsupported(f"element type {ty}")


def is_float_type(ty: Attribute) -> bool:
    """Whether a type, or a tensor's element type, is one of floats."""
    return isinstance(element_type(ty), builtin.AnyFloat)


def is_float(dtype: np.dtype) -> bool:
    """Whether `dtype` is one of numpy's or ml_dtypes' float types."""
    return dtype.kind == "f" or dtype in _NARROW


_NARROW = {BF16, F8E5M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2FNUZ, F8E4M3B11FNUZ}


def unsigned(a: np.ndarray) -> np.ndarray:
    """`a` (signed integers or bool) seen as unsigned integers of the same width."""
    return a if a.dtype == bool else a.view(SIGNED_TO_UNSIGNED[a.dtype])
