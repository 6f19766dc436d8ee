"""PTX instructions on registers: the table that inline assembly is run with.

An entry is a function of arrays, typed as the instruction's suffixes say (`.s32` int32, `.f16x2`
float16 with a last axis of 2, `.pred` bool). It never sees a thread: what depends on one (shuffles,
votes, memory, branches) has no entry. Rules: PTX ISA 9.0, section 9.7. Approximate instructions
give the correctly rounded result, so a GPU may differ in the last two places.

Another module adds instructions with `@instruction("name", ...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from xttir.diagnostics import Unsupported
from xttir.interp.numerics import bits, exact, floating, integer
from xttir.interp.numerics.elementary import UNARY
from xttir.interp.numerics.floats import BF16, E2M1, E2M3, E3M2, E4M3FN, E5M2, F16, F32, F64, widen

E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)

SCALARS: dict[str, np.dtype] = {
    **{f"s{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"{k}{n}": np.dtype(f"uint{n}") for k in "ub" for n in (8, 16, 32, 64)},
    "f16": F16,
    "bf16": BF16,
    "f32": F32,
    "tf32": F32,
    "f64": F64,
    "e4m3": E4M3FN,
    "e5m2": E5M2,
    "e2m1": E2M1,
    "e2m3": E2M3,
    "e3m2": E3M2,
    "ue8m0": E8M0,
    "pred": np.dtype(bool),
}
_PACKED = {
    **{f"{t}x2": (t, 2) for t in ("f16", "bf16", "f32", "u16", "s16", "e4m3", "e5m2", "e2m1")},
    **{f"{t}x2": (t, 2) for t in ("e2m3", "e3m2", "ue8m0")},
    **{f"{t}x4": (t, 4) for t in ("u8", "s8", "e4m3", "e5m2", "e2m3", "e3m2")},
}
TYPES = frozenset(SCALARS) | frozenset(_PACKED)


def lanes_of(type_: str) -> tuple[np.dtype, int]:
    """(dtype of an element, elements in a register) of a type suffix."""
    if type_ in _PACKED:
        element, count = _PACKED[type_]
        return SCALARS[element], count
    return SCALARS[type_], 1


def width_of(type_: str) -> int:
    """Bits a value of this type takes in a register; 1 for predicates."""
    if type_ == "pred":
        return 1
    if type_ == "e2m1x2":
        return 8
    dtype, count = lanes_of(type_)
    return 8 * dtype.itemsize * count


def decode(raw: np.ndarray, type_: str) -> np.ndarray:
    """Register bits (unsigned, or bool for predicates) as values of `type_`."""
    if type_ == "pred":
        return raw if raw.dtype == bool else (raw & 1).astype(bool)
    if raw.dtype == bool:
        raw = raw.astype(np.uint32)
    dtype, count = lanes_of(type_)
    raw = raw.astype(f"u{width_of(type_) // 8}", copy=False)
    if count == 1:
        return raw.view(dtype)
    if type_ == "e2m1x2":
        return np.stack([raw & 15, raw >> 4], axis=-1).view(dtype)
    return np.ascontiguousarray(raw)[..., np.newaxis].view(dtype)


def encode(value: np.ndarray, type_: str) -> np.ndarray:
    """The inverse of `decode`."""
    if type_ == "pred":
        return value.astype(bool, copy=False)
    dtype, count = lanes_of(type_)
    value = value.astype(dtype, copy=False)
    if type_ == "e2m1x2":
        codes = value.view(np.uint8)
        return codes[..., 0] & np.uint8(15) | codes[..., 1] << np.uint8(4)
    raw = f"u{width_of(type_) // 8}"
    if count == 1:
        return value.view(raw)
    return np.ascontiguousarray(value).view(raw)[..., 0]


# The table ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """An opcode taken apart: `cvt.rn.satfinite.e4m3x2.f32` has two modifiers and two types."""

    opcode: str
    modifiers: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def type(self) -> str:
        return self.types[0]

    @property
    def rounding(self) -> str:
        """The rounding mode, nearest even if none is given."""
        for m in self.modifiers:
            if m in exact.MODES or m == "rna":
                return m
        return "rn"

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers


Rule = Callable[[Form], Sequence[str]]


@dataclass(frozen=True)
class Instruction:
    """`run(form, *sources)` gives the result, or a tuple of results.

    `sources` and `results` give the types of operands; a list of sources that is too short repeats
    its last. `modifiers`: those that are understood; others make the instruction unsupported.
    """

    run: Callable[..., Any]
    sources: Rule
    results: Rule
    modifiers: frozenset[str]


TABLE: dict[str, Instruction] = {}
"""By mnemonic ("add") or longer beginning of the opcode ("cvt.pack"); the longest match counts."""


def instruction(
    *names: str,
    modifiers: str = "",
    sources: Rule = lambda form: form.types[-1:],
    results: Rule = lambda form: form.types[:1],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an instruction to the table. By default sources have the last type, the result the first.

    `modifiers`: words separated by spaces.
    """

    def add(run: Callable[..., Any]) -> Callable[..., Any]:
        entry = Instruction(run, sources, results, frozenset(modifiers.split()))
        for name in names:
            TABLE[name] = entry
        return run

    return add


def find(opcode: str) -> tuple[Instruction, Form]:
    """The entry for `opcode` and its form. Raises Unsupported."""
    parts = opcode.split(".")
    for n in range(len(parts), 0, -1):
        entry = TABLE.get(".".join(parts[:n]))
        if entry is not None:
            break
    else:
        raise Unsupported(f"PTX instruction {opcode}")
    rest = parts[n:]
    types = tuple(p for p in rest if p in TYPES)
    form = Form(opcode, tuple(p for p in rest if p not in TYPES), types)
    unknown = set(form.modifiers) - entry.modifiers
    if unknown:
        raise Unsupported(f"PTX instruction {opcode} (.{', .'.join(sorted(unknown))})")
    return entry, form


# Floats and integers alike ------------------------------------------------------------------------

_ROUND = "rn rz rm rp"
_SMALLEST = {F32: 2.0**-126, F16: 2.0**-14, BF16: 2.0**-126, F64: 2.0**-1022}


def _is_float(a: np.ndarray) -> bool:
    return a.dtype in _SMALLEST


def _flush(form: Form, a: np.ndarray) -> np.ndarray:
    """Subnormal numbers as zeros of the same sign, if the instruction says `.ftz`."""
    if not form.has("ftz"):
        return a
    tiny = np.abs(widen(a)) < _SMALLEST[a.dtype]
    return np.where(tiny, np.copysign(np.zeros((), a.dtype), a), a) if tiny.any() else a


def _finish(form: Form, value: np.ndarray) -> np.ndarray:
    """`.ftz`, `.sat` (to [0, 1], NaN to 0) and `.relu` (below 0 to 0) of a float result."""
    value = _flush(form, value)
    if form.has("sat"):
        wide = widen(value)
        value = np.where(wide > 0, np.minimum(wide, 1), 0).astype(value.dtype)
    if form.has("relu"):
        value = np.where(widen(value) <= 0, np.zeros((), value.dtype), value)
    return value


def _signed_view(a: np.ndarray) -> np.ndarray:
    return a.view(f"i{a.dtype.itemsize}") if a.dtype.kind == "u" else a


def _saturate_integer(exact_value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.clip(exact_value, info.min, info.max).astype(dtype)


@instruction("add", modifiers=f"{_ROUND} ftz sat")
def _add(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not _is_float(a):
        if form.has("sat"):
            return _saturate_integer(a.astype(np.int64) + b, a.dtype)
        return a + b
    a, b = _flush(form, a), _flush(form, b)
    value = exact.add(a, b, form.rounding) if a.dtype in (F32, F64) else floating.add(a, b)
    return _finish(form, value)


@instruction("sub", modifiers=f"{_ROUND} ftz sat")
def _sub(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not _is_float(a):
        if form.has("sat"):
            return _saturate_integer(a.astype(np.int64) - b, a.dtype)
        return a - b
    return _add(form, a, np.negative(b))


def _double(type_: str) -> str:
    return f"{type_[0]}{2 * int(type_[1:])}"


def _product_type(form: Form) -> Sequence[str]:
    return (_double(form.type),) if form.has("wide") else (form.type,)


def _integer_product(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if form.has("wide"):
        wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        return a.astype(wide) * b.astype(wide)
    if form.has("hi"):
        signed = a.dtype.kind == "i"
        high = integer.mulhi_signed if signed else integer.mulhi_unsigned
        return high(_signed_view(a), _signed_view(b)).view(a.dtype)
    return a * b


@instruction("mul", modifiers=f"{_ROUND} ftz sat lo hi wide", results=_product_type)
def _mul(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not _is_float(a):
        return _integer_product(form, a, b)
    a, b = _flush(form, a), _flush(form, b)
    value = exact.mul(a, b, form.rounding) if a.dtype in (F32, F64) else floating.mul(a, b)
    return _finish(form, value)


@instruction("fma", modifiers=f"{_ROUND} ftz sat relu")
def _fma(form: Form, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    a, b, c = (_flush(form, v) for v in (a, b, c))
    if a.dtype in (F32, F64):
        return _finish(form, exact.fma_directed(a, b, c, form.rounding))
    return _finish(form, exact.fma(a, b, c))


def _mad_types(form: Form) -> Sequence[str]:
    return (form.type, form.type, *_product_type(form))


@instruction(
    "mad", modifiers=f"{_ROUND} ftz sat lo hi wide", sources=_mad_types, results=_product_type
)
def _mad(form: Form, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    if _is_float(a):
        return _fma(form, a, b, c)
    product = _integer_product(form, a, b)
    if form.has("sat"):
        return _saturate_integer(product.astype(np.int64) + c, c.dtype)
    return product + c


@instruction("mul24", modifiers="lo hi")
def _mul24(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if form.has("lo"):
        return bits.mul24(a, b)
    eight = a.dtype.type(8)
    a, b = ((v << eight) >> eight for v in (a, b))
    wide = np.int64 if a.dtype.kind == "i" else np.uint64
    return ((a.astype(wide) * b.astype(wide)) >> wide(16)).astype(a.dtype)


@instruction("mad24", modifiers="lo hi")
def _mad24(form: Form, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return _mul24(form, a, b) + c


@instruction("div", modifiers=f"{_ROUND} ftz approx full")
def _div(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if _is_float(a):
        a, b = _flush(form, a), _flush(form, b)
        return _finish(form, exact.div(a, b, form.rounding))
    divide = integer.div_signed if a.dtype.kind == "i" else integer.div_unsigned
    return divide(_signed_view(a), _signed_view(b))[0].view(a.dtype)


@instruction("rem")
def _rem(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    divide = integer.rem_signed if a.dtype.kind == "i" else integer.rem_unsigned
    return divide(_signed_view(a), _signed_view(b))[0].view(a.dtype)


@instruction("abs", modifiers="ftz")
def _abs(form: Form, a: np.ndarray) -> np.ndarray:
    return _finish(form, np.abs(_flush(form, a))) if _is_float(a) else np.abs(a)


@instruction("neg", modifiers="ftz")
def _neg(form: Form, a: np.ndarray) -> np.ndarray:
    return _finish(form, np.negative(_flush(form, a))) if _is_float(a) else -a


@instruction("sad", results=lambda form: form.types, sources=lambda form: form.types)
def _sad(form: Form, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return bits.absolute_difference(a, b, c)


def _extremum(form: Form, largest: bool, operands: tuple[np.ndarray, ...]) -> np.ndarray:
    out = operands[0]
    if not _is_float(out):
        for other in operands[1:]:
            out = np.maximum(out, other) if largest else np.minimum(out, other)
        if form.has("relu"):
            out = np.maximum(out, 0).astype(out.dtype)
        return out
    if form.has("NaN"):
        f = floating.maximum if largest else floating.minimum
    else:
        f = floating.max_number if largest else floating.min_number
    operands = tuple(_flush(form, v) for v in operands)
    if form.has("xorsign"):  # .xorsign.abs: magnitudes compared, signs multiplied
        a, b = operands
        sign = np.where(np.signbit(a) ^ np.signbit(b), -1, 1).astype(np.float32)
        return np.copysign(f(np.abs(a), np.abs(b)), sign.astype(a.dtype))
    out = operands[0]
    for other in operands[1:]:
        out = f(out, other)
    return _flush(form, out)


@instruction("max", modifiers="ftz NaN xorsign abs relu")
def _max(form: Form, *operands: np.ndarray) -> np.ndarray:
    return _extremum(form, True, operands)


@instruction("min", modifiers="ftz NaN xorsign abs relu")
def _min(form: Form, *operands: np.ndarray) -> np.ndarray:
    return _extremum(form, False, operands)


@instruction("copysign")
def _copysign(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.copysign(b, a)  # PTX names the sign first


# Float functions ----------------------------------------------------------------------------------


@instruction("sqrt", modifiers=f"{_ROUND} ftz approx")
def _sqrt(form: Form, a: np.ndarray) -> np.ndarray:
    return _finish(form, exact.sqrt(_flush(form, a), form.rounding))


@instruction("rcp", modifiers=f"{_ROUND} ftz approx")
def _rcp(form: Form, a: np.ndarray) -> np.ndarray:
    return _finish(form, exact.reciprocal(_flush(form, a), form.rounding))


def _approximate(name: str) -> Callable[..., np.ndarray]:
    f = UNARY[name]
    return lambda form, a: _finish(form, f(_flush(form, a)))


for _ptx, _name in {
    "ex2": "exp2",
    "lg2": "log2",
    "sin": "sin",
    "cos": "cos",
    "tanh": "tanh",
    "rsqrt": "rsqrt",
}.items():
    instruction(_ptx, modifiers="approx ftz")(_approximate(_name))


@instruction(
    "testp",
    modifiers="finite infinite number notanumber normal subnormal",
    results=lambda form: ("pred",),
)
def _testp(form: Form, a: np.ndarray) -> np.ndarray:
    size = np.abs(a)
    smallest = _SMALLEST[a.dtype]
    return {
        "finite": np.isfinite(a),
        "infinite": np.isinf(a),
        "number": ~np.isnan(a),
        "notanumber": np.isnan(a),
        "normal": np.isfinite(a) & ((size >= smallest) | (size == 0)),
        "subnormal": (size > 0) & (size < smallest),
    }[form.modifiers[0]]


# Comparison and selection -------------------------------------------------------------------------

_FLOAT_COMPARE = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
    "num": "ord", "nan": "uno",
}  # fmt: skip
_INTEGER_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
    "hs": np.greater_equal,
}  # fmt: skip
_BOOLEAN = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_COMPARE = " ".join(_FLOAT_COMPARE) + " lo ls hi hs and or xor ftz"


def _compared(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    name = form.modifiers[0]
    if _is_float(a):
        return floating.compare(_FLOAT_COMPARE[name], _flush(form, a), _flush(form, b))
    return _INTEGER_COMPARE[name](a, b)


def _combine(form: Form, flag: np.ndarray, more: tuple[np.ndarray, ...]) -> np.ndarray:
    for m in form.modifiers:
        if m in _BOOLEAN:
            return _BOOLEAN[m](flag, more[0])
    return flag


@instruction(
    "setp",
    modifiers=_COMPARE,
    sources=lambda form: (form.type, form.type, "pred"),
    results=lambda form: ("pred", "pred"),
)
def _setp(form: Form, a: np.ndarray, b: np.ndarray, *more: np.ndarray) -> tuple[np.ndarray, ...]:
    """p|q: the comparison and its negation; of packed operands, that of either half."""
    flag = _compared(form, a, b)
    if lanes_of(form.type)[1] == 2:
        return _combine(form, flag[..., 0], more), _combine(form, flag[..., 1], more)
    return _combine(form, flag, more), _combine(form, ~flag, more)


@instruction(
    "set",
    modifiers=_COMPARE,
    sources=lambda form: (form.types[1], form.types[1], "pred"),
)
def _set(form: Form, a: np.ndarray, b: np.ndarray, *more: np.ndarray) -> np.ndarray:
    flag = _combine(form, _compared(form, a, b), more)
    dtype = lanes_of(form.type)[0]
    if dtype in _SMALLEST:
        return flag.astype(np.float32).astype(dtype)
    return -flag.astype(np.int64).astype(f"i{dtype.itemsize}")


@instruction("selp", sources=lambda form: (form.type, form.type, "pred"))
def _selp(form: Form, a: np.ndarray, b: np.ndarray, flag: np.ndarray) -> np.ndarray:
    return np.where(flag, a, b)


@instruction("slct", modifiers="ftz", sources=lambda form: (form.type, form.type, form.types[1]))
def _slct(form: Form, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return np.where(_flush(form, c) >= 0 if _is_float(c) else c >= 0, a, b)


# Bits ---------------------------------------------------------------------------------------------


@instruction("and")
def _and(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a & b


@instruction("or")
def _or(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a | b


@instruction("xor")
def _xor(form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a ^ b


@instruction("not")
def _not(form: Form, a: np.ndarray) -> np.ndarray:
    return ~a


@instruction("cnot")
def _cnot(form: Form, a: np.ndarray) -> np.ndarray:
    return (a == 0).astype(a.dtype)


def _amount_last(form: Form) -> Sequence[str]:
    return (form.type, "u32")


def _shift(a: np.ndarray, amount: np.ndarray, left: bool) -> np.ndarray:
    n = 8 * a.dtype.itemsize
    by = np.minimum(amount, n - 1).astype(a.dtype)
    out = a << by if left else a >> by
    if a.dtype.kind == "i" and not left:
        return out  # clamped: the sign in all bits
    return np.where(amount < n, out, a.dtype.type(0))


@instruction("shl", sources=_amount_last)
def _shl(form: Form, a: np.ndarray, amount: np.ndarray) -> np.ndarray:
    return _shift(a, amount, True)


@instruction("shr", sources=_amount_last)
def _shr(form: Form, a: np.ndarray, amount: np.ndarray) -> np.ndarray:
    return _shift(a, amount, False)


@instruction("shf", modifiers="l r clamp wrap")
def _shf(form: Form, low: np.ndarray, high: np.ndarray, amount: np.ndarray) -> np.ndarray:
    return bits.funnel_shift(low, high, amount, form.has("l"), form.has("wrap"))


@instruction("lop3")
def _lop3(form: Form, a: np.ndarray, b: np.ndarray, c: np.ndarray, table: np.ndarray) -> np.ndarray:
    return bits.lop3(a, b, c, int(table.flat[0]))


@instruction("prmt", modifiers="f4e b4e rc8 ecl ecr rc16")
def _prmt(form: Form, a: np.ndarray, b: np.ndarray, selector: np.ndarray) -> np.ndarray:
    if form.modifiers:
        return bits.permute_bytes_mode(a, b, selector, form.modifiers[0])
    return bits.permute_bytes(a, b, selector)


def _to_u32(form: Form) -> Sequence[str]:
    return ("u32",)


@instruction("popc", results=_to_u32)
def _popc(form: Form, a: np.ndarray) -> np.ndarray:
    return np.bitwise_count(a).astype(np.uint32)


@instruction("clz", results=_to_u32)
def _clz(form: Form, a: np.ndarray) -> np.ndarray:
    return integer.leading_zeros(_signed_view(a)).astype(np.uint32)


@instruction("brev")
def _brev(form: Form, a: np.ndarray) -> np.ndarray:
    return bits.reverse_bits(a)


@instruction("bfind", modifiers="shiftamt", results=_to_u32)
def _bfind(form: Form, a: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "i":  # the highest bit that differs from the sign
        a = np.where(a < 0, ~a, a).view(f"u{a.dtype.itemsize}")
    found = bits.highest_set(a)
    if not form.has("shiftamt"):
        return found
    top = np.uint32(8 * a.dtype.itemsize - 1)
    return np.where(a == 0, found, top - found)


@instruction("fns", sources=lambda form: ("b32", "b32", "s32"))
def _fns(form: Form, mask: np.ndarray, base: np.ndarray, offset: np.ndarray) -> np.ndarray:
    return bits.find_nth_set(mask, base, offset)


@instruction("bfe", sources=_amount_last)
def _bfe(form: Form, a: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    raw = a.view(f"u{a.dtype.itemsize}")
    return bits.extract_field(raw, start, length, a.dtype.kind == "i").view(a.dtype)


@instruction("bfi", sources=lambda form: (form.type, form.type, "u32"))
def _bfi(
    form: Form, a: np.ndarray, b: np.ndarray, start: np.ndarray, length: np.ndarray
) -> np.ndarray:
    return bits.insert_field(a, b, start, length)


@instruction("bmsk", modifiers="clamp wrap")
def _bmsk(form: Form, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    return bits.bit_field_mask(start, length, form.has("wrap"))


@instruction("szext", modifiers="clamp wrap", sources=_amount_last)
def _szext(form: Form, a: np.ndarray, count: np.ndarray) -> np.ndarray:
    raw = a.view(np.uint32)
    length = count & np.uint32(31) if form.has("wrap") else np.minimum(count, np.uint32(32))
    return bits.extract_field(raw, np.zeros_like(length), length, a.dtype.kind == "i").view(a.dtype)


def _dot_types(form: Form) -> Sequence[str]:
    both = "s32" if "s32" in form.types else "u32"
    return ("b32", "b32", both.replace("s", "u"))


@instruction("dp4a", sources=_dot_types, results=_to_u32)
def _dp4a(form: Form, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    signs = [t == "s32" for t in form.types]
    return bits.dot_product(a, b, c, signs[0], signs[-1])


@instruction("dp2a", modifiers="lo hi", sources=_dot_types, results=_to_u32)
def _dp2a(form: Form, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    signs = [t == "s32" for t in form.types]
    return bits.dot_product2(a, b, c, signs[0], signs[-1], form.has("hi"))
