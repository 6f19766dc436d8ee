"""Instructions on registers as closures over a group's registers.

The meaning is the one of the `ptx_scalar` table, on decoded arrays; here operands are bound to
slots once, decoding is a view where it can be, and values that are not plain arrays (unknown,
pending) go another way. A closure takes the registers of a group: slot -> value, `env[GROUP]` the
group itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xttir.diagnostics import Unsupported
from xttir.interp import ptx_carry as ptx_carry  # registers its instructions
from xttir.interp import ptx_cvt as ptx_cvt
from xttir.interp.inline_ptx import decode_float
from xttir.interp.ptx import spread
from xttir.interp.ptx.instruction import UNKNOWN, Imm, Ins, Operand, Reg, Sink, Special, Symbol, Vec
from xttir.interp.ptx.values import Partial, Pending, choose, either, partial, parts_of
from xttir.interp.ptx_scalar import SCALARS, Form, decode, encode, find, width_of
from xttir.interp.ptx_scalar import lanes_of as elements_of

GROUP = -1
"""Where a group's registers hold the group."""

Env = dict[int, Any]
Closure = Callable[[Env], None]
Getter = Callable[[Env], Any]


def container(type_: str) -> np.dtype:
    """What the raw bits of a register of this type live in (b128: two of them)."""
    if type_ == "pred":
        return np.dtype(bool)
    if type_ == "b128":
        return np.dtype(np.uint64)
    return np.dtype(f"uint{max(width_of(type_), 16)}")


def fit(raw: np.ndarray, dtype: np.dtype, signed: bool) -> np.ndarray:
    """Register bits widened (by sign or zeros) or cut to `dtype`."""
    if raw.dtype == dtype:
        return raw
    if dtype.kind == "b":
        return (raw & 1).astype(bool)
    if signed and raw.dtype.kind == "u" and raw.dtype.itemsize < dtype.itemsize:
        return raw.view(f"i{raw.dtype.itemsize}").astype(f"i{dtype.itemsize}").view(dtype)
    return raw.astype(dtype)


def immediate(operand: Imm, type_: str) -> np.ndarray:
    """The raw bits of an immediate read as `type_`, (1,)."""
    value = operand.value
    if type_ == "pred":
        return np.array([bool(value)])
    count = elements_of(type_)[1] if type_ != "b128" else 1
    if isinstance(value, float):
        spelled = operand.text.lower().lstrip("-")
        if type_ in ("f16", "bf16", "f32", "f64", "tf32"):
            return encode(decode_float(value, type_), type_)
        kind = {"0f": np.float32, "0d": np.float64}.get(spelled[:2])
        if kind is None or count > 1:
            raise Unsupported(f"float {operand.text} as an operand of type .{type_}")
        raw = np.array([value], kind).view(f"u{np.dtype(kind).itemsize}")
        return raw.astype(container(type_))
    if type_ in ("f32", "f64", "f16", "bf16"):
        return encode(decode_float(float(value), type_), type_)
    width = max(width_of(type_), 8) if type_ != "b128" else 64
    return np.array([value & ((1 << width) - 1)], f"uint{width}")


def literal(operand: Imm, type_: str) -> np.ndarray:
    """`immediate`, exact for the floats that are spelled as bits (0f7FC00001)."""
    text = operand.text.lower()
    if type_ in ("f32", "f64") and text[:2] in ("0f", "0d"):
        raw, size = int(text[2:], 16), 4 if text[1] == "f" else 8
        if size == width_of(type_) // 8:
            return np.array([raw], f"uint{8 * size}")
    return immediate(operand, type_)


# Sources ------------------------------------------------------------------------------------------


def raw_getter(operand: Operand, type_: str, ins: Ins) -> tuple[int | None, Any, Getter | None]:
    """(slot, constant, getter): exactly one is not None; a getter is for the rarer operands."""
    if isinstance(operand, Reg):
        if not operand.negated:
            return operand.slot, None, None
        slot = operand.slot
        return None, None, lambda env: _not(env[slot])
    if isinstance(operand, Imm):
        return None, literal(operand, type_), None
    if isinstance(operand, Special):
        name = operand.name
        return None, None, lambda env: env[GROUP].special(name)
    if isinstance(operand, Symbol):
        name, offset = operand.name, operand.offset
        return None, None, lambda env: env[GROUP].symbol(name, offset)
    if isinstance(operand, Vec):
        return None, None, _joined(operand, type_, ins)
    raise Unsupported(f"operand {operand}")


def _not(value: Any) -> Any:
    if value.__class__ is np.ndarray:
        return ~value
    if isinstance(value, Partial):
        return Partial(~value.data, value.known)
    return value


def _part_type(type_: str, parts: int) -> str:
    return f"b{(128 if type_ == 'b128' else width_of(type_)) // parts}"


def getter(operand: Operand, type_: str, ins: Ins) -> Getter:
    """A function that gives the raw bits of a source."""
    slot, constant, function = raw_getter(operand, type_, ins)
    if slot is not None:
        return lambda env: env[slot]
    if function is not None:
        return function
    return lambda env: constant


def _joined(operand: Vec, type_: str, ins: Ins) -> Getter:
    """{a, b, ..} as one value, the lowest bits first."""
    part = _part_type(type_, len(operand.parts))
    getters = [getter(p, part, ins) for p in operand.parts]
    dtype = np.dtype(f"uint{width_of(part)}")
    wide = np.dtype(f"uint{min(width_of(part) * len(getters), 64)}")

    def get(env: Env) -> Any:
        values = [settle(env, g(env), ins) for g in getters]
        return apply(env, values, lambda *arrays: join_bits([fit(a, dtype, False) for a in arrays]))

    def join_bits(arrays: list[np.ndarray]) -> np.ndarray:
        stacked = np.stack(np.broadcast_arrays(*arrays), axis=-1)
        out = np.ascontiguousarray(stacked).view(wide)
        return out[..., 0] if type_ != "b128" else out

    return get


def settle(env: Env, value: Any, ins: Ins) -> Any:
    """A value that `ins` is about to use: a register in flight is reported, and gives what it
    has."""
    return env[GROUP].used_early(value, ins) if isinstance(value, Pending) else value


def apply(env: Env, values: list[Any], function: Callable[..., np.ndarray]) -> Any:
    """`function` of arrays, on values of which some may be unknown."""
    n = env[GROUP].n
    known: Any = True
    arrays = []
    for value in values:
        data, k = parts_of(value, n)
        if data is None:
            return UNKNOWN
        arrays.append(data)
        if k is not True:
            known = k if known is True else known & k
    return partial(function(*arrays), known)


# Instructions -------------------------------------------------------------------------------------


def opcode(ins: Ins) -> str:
    return ".".join((ins.name, *ins.modifiers))


def lower(ins: Ins) -> Closure:
    """The closure of a scalar instruction, its guard included. Raises Unsupported."""
    body = _move(ins) if ins.name == "mov" else _table(ins)
    if ins.guard is None:
        return body
    return _guarded(body, ins)


def is_scalar(ins: Ins) -> bool:
    """Whether the table has this instruction."""
    if ins.name == "mov":
        return True
    try:
        find(opcode(ins))
    except Unsupported:
        return False
    return True


def defined_slots(operands: tuple[Operand, ...]) -> list[int]:
    out = []
    for operand in operands:
        if isinstance(operand, Reg):
            out.append(operand.slot)
        elif isinstance(operand, Vec):
            out += defined_slots(operand.parts)
    return out


def _guarded(body: Closure, ins: Ins) -> Closure:
    assert ins.guard is not None
    slot, negated = ins.guard.slot, ins.guard.negated
    targets = defined_slots(ins.dst)

    def run(env: Env) -> None:
        flag = env[slot]
        if flag.__class__ is np.ndarray and flag.shape[0] == 1:
            if bool(flag[0]) != negated:
                body(env)
            return
        flag = settle(env, flag, ins)
        before = [env.get(t, UNKNOWN) for t in targets]
        body(env)
        group = env[GROUP]
        for t, old in zip(targets, before, strict=True):
            old = settle(env, old, ins)
            if flag is UNKNOWN:
                env[t] = either(env[t], old, group.n)
                continue
            data, known = parts_of(flag, group.n)
            assert data is not None
            chosen = choose(np.broadcast_to(data != negated, (group.n,)), env[t], old)
            if isinstance(known, np.ndarray):
                doubtful = either(env[t], old, group.n)
                chosen = choose(known, chosen, doubtful)
            env[t] = chosen

    return run


def _store(target: Operand, signed: bool) -> Callable[[Env, Any], None]:
    """Puts raw bits (or what stands for them) into a destination."""
    if isinstance(target, Sink):
        return lambda env, value: None
    if isinstance(target, Vec):
        return _spread(target)
    assert isinstance(target, Reg)
    slot, dtype = target.slot, container(target.type)

    def put(env: Env, value: Any) -> None:
        if value.__class__ is np.ndarray:
            env[slot] = value if value.dtype == dtype else fit(value, dtype, signed)
        elif isinstance(value, Partial):
            env[slot] = Partial(fit(value.data, dtype, signed), value.known)
        else:
            env[slot] = value

    return put


def _spread(target: Vec) -> Callable[[Env, Any], None]:
    puts = [_store(p, False) for p in target.parts]

    def put(env: Env, value: Any) -> None:
        if value is UNKNOWN:
            for p in puts:
                p(env, UNKNOWN)
            return
        data, known = parts_of(value, env[GROUP].n)
        assert data is not None
        if data.ndim == 1:
            data = data[:, None]
        total = data.dtype.itemsize * data.shape[1]
        parts = np.ascontiguousarray(data).view(f"u{total // len(puts)}")
        for k, p in enumerate(puts):
            p(env, partial(parts[:, k], known))

    return put


def _move(ins: Ins) -> Closure:
    type_ = ins.modifiers[-1]
    (target,), (source,) = ins.dst, ins.src
    slot, constant, get = raw_getter(source, type_, ins)
    if isinstance(target, Reg):
        out = target.slot
        dtype = container(target.type)
        if constant is not None:
            fixed = fit(constant, dtype, False)

            def put_constant(env: Env) -> None:
                env[out] = fixed

            return put_constant
        if slot is not None and isinstance(source, Reg) and container(source.type) == dtype:

            def copy(env: Env) -> None:
                value = env[slot]
                env[out] = value if value.__class__ is np.ndarray else settle(env, value, ins)

            return copy
    put = _store(target, False)
    if get is None:
        get = getter(source, type_, ins)
    cut = np.dtype(f"uint{max(width_of(type_), 8)}") if type_ not in ("pred", "b128") else None
    found = get

    def move(env: Env) -> None:
        value = settle(env, found(env), ins)
        if cut is not None and value.__class__ is np.ndarray and value.dtype != cut:
            value = fit(value, cut, False)
        put(env, value)

    return move


def _decoder(operand: Operand, type_: str) -> Callable[[np.ndarray], np.ndarray] | None:
    """Raw bits of the operand as values of `type_`; None when they are that already."""
    if type_ == "pred":
        return None if isinstance(operand, Reg) and operand.type == "pred" else _pred
    dtype, count = elements_of(type_)
    held = container(operand.type) if isinstance(operand, Reg) else None
    if held == dtype and count == 1:
        return None
    if held is not None and held.itemsize == dtype.itemsize and count == 1:
        return lambda raw: raw.view(dtype)
    return lambda raw: decode(raw, type_)


def _pred(raw: np.ndarray) -> np.ndarray:
    return decode(raw, "pred")


def _encoder(target: Operand, type_: str) -> Callable[[np.ndarray], np.ndarray]:
    """Values of `type_` as the raw bits that the register holds."""
    signed = type_.startswith("s")
    if not isinstance(target, Reg):
        return lambda value: encode(value, type_)
    held = container(target.type)
    if type_ == "pred":
        return lambda value: fit(value, held, False)
    dtype, count = elements_of(type_)
    if count == 1 and dtype == held:
        return lambda value: value.astype(held, copy=False)
    if count == 1 and dtype.itemsize == held.itemsize:
        return lambda value: value.astype(dtype, copy=False).view(held)
    return lambda value: fit(encode(value, type_), held, signed)


def _table(ins: Ins) -> Closure:
    entry, form = find(opcode(ins))
    if not form.types:
        raise Unsupported(f"PTX instruction {form.opcode}")
    types = list(entry.sources(form))
    types += types[-1:] * (len(ins.src) - len(types))
    results = entry.results(form)
    sources = [
        (*raw_getter(s, t, ins), _decoder(s, t)) for s, t in zip(ins.src, types, strict=False)
    ]
    targets = [(_store(t, False), _encoder(t, r)) for t, r in zip(ins.dst, results, strict=False)]
    slow = _slow(ins, form, entry.run, sources, targets)
    fast = _fast(ins, form, entry.run, sources, targets, slow)
    return fast or slow


def _arguments(env: Env, sources: list[Any], ins: Ins) -> list[Any]:
    """Decoded operands, unknown ones among them."""
    n = env[GROUP].n
    out = []
    for slot, constant, get, decoder in sources:
        value = env[slot] if slot is not None else constant if get is None else get(env)
        value = settle(env, value, ins)
        data, known = parts_of(value, n)
        if data is not None and decoder is not None:
            data = decoder(data)
        out.append((data, known))
    return out


def _slow(ins: Ins, form: Form, run: Any, sources: list[Any], targets: list[Any]) -> Closure:
    rule = _KNOWN_ANYWAY.get(ins.name)

    def step(env: Env) -> None:
        arguments = _arguments(env, sources, ins)
        if all(data is not None for data, _ in arguments):
            results = run(form, *(data for data, _ in arguments))
            results = results if isinstance(results, tuple) else (results,)
            known = _all_known(arguments)
            if known is not True and rule is not None:
                known = rule(arguments, known, env[GROUP].n)
            for (put, encoder), value in zip(targets, results, strict=False):
                put(env, partial(encoder(value), known))
            return
        value = UNKNOWN
        if rule is not None and _is_bits(form):
            value = _rescued(form, run, arguments, rule, env[GROUP].n)
        if value is UNKNOWN and len(targets) == 1:
            bounded = spread.result(ins.name, form, _raw(env, sources))
            if bounded is not UNKNOWN:
                targets[0][0](env, bounded)
                return
        for put, encoder in targets:
            put(env, value if value is UNKNOWN else _encoded(value, encoder))

    return step


def _raw(env: Env, sources: list[Any]) -> list[Any]:
    return [env[s] if s is not None else c if g is None else g(env) for s, c, g, _ in sources]


def _is_bits(form: Form) -> bool:
    return len(form.types) == 1 and form.type in SCALARS


def _encoded(value: Any, encoder: Any) -> Any:
    data, known = value
    return partial(encoder(data), known)


def _all_known(arguments: list[Any]) -> Any:
    known: Any = True
    for _, k in arguments:
        if k is not True:
            known = k if known is True else known & k
    return known


def _rescued(form: Form, run: Any, arguments: list[Any], rule: Any, n: int) -> Any:
    """The result where it does not depend on the unknown operands."""
    filled = [
        (np.zeros(1, _dtype_of(form, k)) if data is None else data, known)
        for k, (data, known) in enumerate(arguments)
    ]
    known = rule(filled, False, n)
    if known is False or not np.any(known):
        return UNKNOWN
    return run(form, *(data for data, _ in filled)), known


def _dtype_of(form: Form, index: int) -> np.dtype:
    if form.opcode.startswith("selp") and index == 2:
        return np.dtype(bool)
    return SCALARS[form.type]


def _as_mask(known: Any, n: int) -> np.ndarray:
    return np.full(n, known) if known is True or known is False else known


def _and_known(arguments: list[Any], known: Any, n: int) -> Any:
    """A known zero decides."""
    (a, known_a), (b, known_b) = arguments
    zero = (_as_mask(known_a, n) & (a == 0)) | (_as_mask(known_b, n) & (b == 0))
    return _as_mask(known, n) | zero


def _or_known(arguments: list[Any], known: Any, n: int) -> Any:
    """Known ones decide."""
    (a, known_a), (b, known_b) = arguments
    full = np.invert(np.zeros(1, a.dtype))
    ones = (_as_mask(known_a, n) & (a == full)) | (_as_mask(known_b, n) & (b == full))
    return _as_mask(known, n) | ones


def _select_known(arguments: list[Any], known: Any, n: int) -> Any:
    (_, known_a), (_, known_b), (flag, known_flag) = arguments
    chosen = np.where(flag, _as_mask(known_a, n), _as_mask(known_b, n))
    return _as_mask(known, n) | (_as_mask(known_flag, n) & chosen)


def _product_known(arguments: list[Any], known: Any, n: int) -> Any:
    if arguments[0][0].dtype.kind == "f":
        return known
    return _and_known(arguments, known, n)


_KNOWN_ANYWAY: dict[str, Callable[[list[Any], Any, int], Any]] = {
    "and": _and_known,
    "or": _or_known,
    "selp": _select_known,
    "mul": _product_known,
}
"""Where a result is known though an operand is not."""


def _fast(
    ins: Ins, form: Form, run: Any, sources: list[Any], targets: list[Any], slow: Closure
) -> Closure | None:
    """The common shapes: one to three sources in registers or constants, one result register."""
    if any(get is not None for _, _, get, _ in sources):
        return None
    if not all(isinstance(t, Reg) for t in ins.dst) or not 1 <= len(ins.src) <= 3:
        return None
    first = ins.dst[0]
    assert isinstance(first, Reg)
    out = first.slot
    encoder = targets[0][1]
    single = len(ins.dst) == 1
    second = ins.dst[1].slot if not single else 0  # type: ignore[union-attr]
    ndarray = np.ndarray
    fixed = [
        None if slot is not None else (constant if d is None else d(constant))
        for slot, constant, _, d in sources
    ]
    slots = [slot for slot, _, _, _ in sources]
    decoders = [d for _, _, _, d in sources]
    plain = _plain(ins, form, slots, fixed, out, slow) if single else None
    if plain is not None:
        return plain

    def general(env: Env) -> None:
        arguments = []
        for slot, constant, d in zip(slots, fixed, decoders, strict=True):
            if slot is None:
                arguments.append(constant)
                continue
            value = env[slot]
            if value.__class__ is not ndarray:
                slow(env)
                return
            arguments.append(value if d is None else d(value))
        result = run(form, *arguments)
        if result.__class__ is tuple:
            env[out] = encoder(result[0])
            if not single:
                env[second] = encoder(result[1])
        else:
            env[out] = encoder(result)

    return general


# Integers whose raw bits can be worked on as they are ---------------------------------------------

_WRAPPING = {"add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or}
_WRAPPING |= {"xor": np.bitwise_xor, "mul": np.multiply}
_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
    "hs": np.greater_equal,
}  # fmt: skip


def _raw_ufunc(form: Form, name: str) -> Any:
    """The ufunc on raw bits that `form` is, where signs do not matter; else None."""
    if len(form.types) != 1 or form.type not in SCALARS:
        return None
    dtype = SCALARS[form.type]
    if dtype.kind not in "iub" or (dtype.kind == "b") != (form.type == "pred"):
        return None
    if name == "setp":
        signless = dtype.kind == "u" or form.modifiers[0] in ("eq", "ne")
        plain = len(form.modifiers) == 1 and form.modifiers[0] in _COMPARE
        return _COMPARE[form.modifiers[0]] if plain and signless else None
    wanted = ("lo",) if name == "mul" else ()
    return _WRAPPING.get(name) if form.modifiers == wanted else None


def _plain(
    ins: Ins, form: Form, slots: list[Any], fixed: list[Any], out: int, slow: Closure
) -> Closure | None:
    ufunc = _raw_ufunc(form, ins.name)
    if ufunc is None or len(slots) != 2:
        return None
    held = container(form.type)
    for operand in (*ins.src, *(() if ins.name == "setp" else ins.dst)):
        if isinstance(operand, Reg) and container(operand.type) != held:
            return None
    if form.type not in ("pred", "b16", "u16", "s16") and width_of(form.type) < 16:
        return None
    ndarray = np.ndarray
    a, b = slots
    if a is not None and b is not None:

        def both(env: Env) -> None:
            x, y = env[a], env[b]
            if x.__class__ is ndarray and y.__class__ is ndarray:
                env[out] = ufunc(x, y)
            else:
                slow(env)

        return both
    if a is None:
        return None
    y = fixed[1].astype(held, copy=False) if fixed[1].dtype.kind == "u" else fixed[1].view(held)

    def one(env: Env) -> None:
        x = env[a]
        if x.__class__ is ndarray:
            env[out] = ufunc(x, y)
        else:
            slow(env)

    return one
