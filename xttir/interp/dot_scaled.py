"""`tt.dot_scaled`: operands unpacked and scaled by `numerics.microscaling`, then a product."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.interpreter import InterpreterFunctions, impl, register_impls

from xttir.dialects import tt
from xttir.interp.attributes import integer
from xttir.interp.dot import full
from xttir.interp.numerics import products
from xttir.interp.numerics.microscaling import elements, scaled_rows

ELEMENT_TYPES = {t.value: t.keyword for t in tt.ScaleDotElemType}


def dot_scaled(
    a: np.ndarray,
    a_scale: np.ndarray | None,
    a_type: str,
    a_packs_k: bool,
    b: np.ndarray,
    b_scale: np.ndarray | None,
    b_type: str,
    b_packs_k: bool,
    c: np.ndarray,
) -> np.ndarray:
    """scale(a) @ scale(b) + c, for a (.., m, k), b (.., k, n), both possibly packed.

    Scales are (.., m, k / group) and (.., n, k / group). `*_packs_k`: e2m1 pairs lie along k, else
    along m or n.
    """
    left = elements(a, a_type, -1 if a_packs_k else -2)
    right = elements(b, b_type, -2 if b_packs_k else -1)
    if a_scale is not None:
        left = scaled_rows(left, a_scale)
    if b_scale is not None:
        right = scaled_rows(np.ascontiguousarray(right.swapaxes(-1, -2)), b_scale).swapaxes(-1, -2)
    return products.dot(left, right, c)


@register_impls
class DotScaledFunctions(InterpreterFunctions):
    """Implementation of `tt.dot_scaled`. `fastMath` permits what is done anyway."""

    @impl(tt.DotScaledOp)
    def run_dot_scaled(
        self, interp: Any, op: tt.DotScaledOp, args: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        given = dict(zip(op.operands, args, strict=True))
        a, b = full(given[op.a], op.a), full(given[op.b], op.b)
        scales = [None if s is None else full(given[s], s) for s in (op.a_scale, op.b_scale)]
        types = [ELEMENT_TYPES[integer(t)] for t in (op.a_elem_type, op.b_elem_type)]
        packs = [bool(integer(p)) for p in (op.lhs_k_pack, op.rhs_k_pack)]
        value = dot_scaled(
            a, scales[0], types[0], packs[0], b, scales[1], types[1], packs[1], given[op.c]
        )
        return (value,)
