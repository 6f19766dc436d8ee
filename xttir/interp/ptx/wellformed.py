"""Whether an instruction has the operands that it takes: how many, of which forms, and registers of
the right size.

PTX ISA 9.1: the syntax of each instruction in 9.7, operand types in 9.4.1 (registers of the size of
the instruction's type; loads, stores and conversions may use wider ones). ptxas refuses what does
not fit; a verdict on it would be on no program.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from xttir.diagnostics import Unsupported
from xttir.interp import ptx_carry as ptx_carry  # registers its instructions
from xttir.interp import ptx_cvt as ptx_cvt
from xttir.interp.ptx.instruction import Label, Mem, Operand, Reg, Vec
from xttir.interp.ptx_scalar import find, width_of

_FORMS = {
    "activemask": "r>",
    "atom": "[rv]>m[rv]{1,2}r?",
    "bar.warp.sync": ">r",
    "barrier.arrive": ">rr",
    "barrier.cluster.arrive": ">",
    "barrier.cluster.wait": ">",
    "barrier.red": "r>r{2,3}",
    "barrier.sync": ">r{1,2}",
    "clusterlaunchcontrol.query_cancel": "[rv]>r",
    "clusterlaunchcontrol.try_cancel": ">mm",
    "cp.async": ">mmr{1,3}",
    "cp.async.bulk": ">mmrm?r{0,2}",
    "cp.async.bulk.commit_group": ">",
    "cp.async.bulk.tensor": ">mmm?v?r{0,2}",
    "cp.async.bulk.wait_group": ">r",
    "cp.async.commit_group": ">",
    "cp.async.mbarrier.arrive": ">m",
    "cp.async.wait_all": ">",
    "cp.async.wait_group": ">r",
    "cp.reduce.async.bulk": ">mmrm?r?",
    "cp.reduce.async.bulk.tensor": ">mmr?",
    "cvta": "r>r",
    "elect": "rr?>r",
    "fence": ">",
    "fence.mbarrier_init": ">",
    "fence.proxy": ">(mr)?",
    "getctarank": "r>r",
    "griddepcontrol.launch_dependents": ">",
    "griddepcontrol.wait": ">",
    "isspacep": "r>r",
    "ld": "[rv]>mr?",
    "ldmatrix": "[rv]>m",
    "ldu": "[rv]>m",
    "mapa": "r>rr",
    "match": "rr?>rr",
    "mbarrier.arrive": "r>mr?",
    "mbarrier.arrive_drop": "r>mr?",
    "mbarrier.complete_tx": ">mr",
    "mbarrier.expect_tx": ">mr",
    "mbarrier.init": ">mr",
    "mbarrier.inval": ">m",
    "mbarrier.pending_count": "r>r",
    "mbarrier.test_wait": "r>mr",
    "mbarrier.try_wait": "r>mrr?",
    "membar": ">",
    "mma": "[rv]>[rv]{3,8}",
    "mov": "[rv]>[rv]",
    "movmatrix": "r>r",
    "multimem.cp.async.bulk": ">mmrr?",
    "multimem.cp.reduce.async.bulk": ">mmr",
    "multimem.ld_reduce": "[rv]>m",
    "multimem.red": ">m[rv]",
    "multimem.st": ">m[rv]",
    "nanosleep": ">r",
    "red": ">m[rv]r?",
    "red.async": ">mrm",
    "redux": "r>rr",
    "setmaxnreg": ">r",
    "shfl": "rr?>r{3,4}",
    "st": ">m[rv]r?",
    "st.async": ">m[rv]m",
    "st.bulk": ">mrr?",
    "stmatrix": ">m[rv]",
    "tcgen05.alloc": ">mr",
    "tcgen05.commit": ">mr?",
    "tcgen05.cp": ">mr",
    "tcgen05.dealloc": ">rr",
    "tcgen05.fence::after_thread_sync": ">",
    "tcgen05.fence::before_thread_sync": ">",
    "tcgen05.ld": "[rv]>mr?",
    "tcgen05.mma": ">m[rm]rm?r(mm)?v?r{1,2}m?",
    "tcgen05.relinquish_alloc_permit": ">",
    "tcgen05.shift": ">m",
    "tcgen05.st": ">mr?[rv]",
    "tcgen05.wait::ld": ">",
    "tcgen05.wait::st": ">",
    "tensormap.cp_fenceproxy": ">mmr",
    "tensormap.replace": ">mrr?",
    "vote": "r>rr?",
    "wgmma.commit_group": ">",
    "wgmma.fence": ">",
    "wgmma.mma_async": "[rv]>[rv]r{2,8}",
    "wgmma.wait_group": ">r",
}
"""By family, a pattern of what is defined > what is used: `r` a register, number or name, `v` a
vector, `m` an address in brackets."""

_WIDER = ("cvt", "cvt.pack", "ld", "ldu", "st")
_CHANGES_SIZE = ("cvt", "cvt.pack")
_SIZED = re.compile(r"(pred|[bsuf](?:8|16|32|64|128))")
_WGMMA = re.compile(r"m64n(\d+)k(\d+)")


def misfit(
    name: str, modifiers: tuple[str, ...], dst: Sequence[Operand], src: Sequence[Operand]
) -> str:
    """What is wrong with the operands of an instruction; empty: nothing that is known."""
    return _misfit(name, modifiers, tuple(map(_kind, dst)), tuple(map(_kind, src)))


Kind = str | tuple[Any, ...]
"""The type of a register; "r" another value, "m" an address, "l" a label; those of a vector."""


def _kind(operand: Operand) -> Kind:
    if isinstance(operand, Reg):
        return operand.type
    if isinstance(operand, Vec):
        return tuple(map(_kind, operand.parts))
    if isinstance(operand, Mem):
        return "m"
    return "l" if isinstance(operand, Label) else "r"


def _letter(kind: Kind) -> str:
    if isinstance(kind, tuple):
        return "v"
    return kind if kind in ("m", "l") else "r"


@cache
def _misfit(
    name: str, modifiers: tuple[str, ...], dst: tuple[Kind, ...], src: tuple[Kind, ...]
) -> str:
    shown = ".".join((name, *modifiers))
    form = _FORMS.get(name)
    if form is None:
        return _scalar(shown, name, dst, src)
    letters = "".join(map(_letter, dst)) + ">" + "".join(map(_letter, src))
    if not re.fullmatch(form, letters):
        return f"{shown} does not take these operands"
    if name == "wgmma.mma_async":
        return _wgmma(shown, modifiers, dst[0])
    if name in ("mov", "ld", "ldu", "st"):
        type_ = modifiers[-1] if modifiers else ""
        values = (*dst, *src[1:2]) if name == "st" else dst if name != "mov" else (*dst, *src)
        return next(filter(None, (_moved(shown, name, type_, v) for v in values)), "")
    return ""


def _moved(shown: str, name: str, type_: str, kind: Kind) -> str:
    """A value that is moved, loaded or stored."""
    if not isinstance(kind, tuple):
        return _register(shown, kind, type_, name in _WIDER)
    if name != "mov":
        return next(filter(None, (_register(shown, k, type_, True) for k in kind)), "")
    sizes = [_size(k) for k in kind]
    whole = _size(type_)
    if None in sizes or whole is None or sum(s or 0 for s in sizes) == whole:
        return ""
    return f"{shown}: the elements of the vector are not of {whole} bits together"


def _wgmma(shown: str, modifiers: tuple[str, ...], accumulator: Kind) -> str:
    for word in modifiers:
        match = _WGMMA.fullmatch(word)
        if match is None:
            continue
        n = int(match[1])
        if n % 8 or not 8 <= n <= 256:
            return f"{shown}: n of the shape must be a multiple of 8, at most 256"
        types = [m for m in modifiers if m in ("f16", "f32", "s32")]
        registers = n // 4 if types and types[0] == "f16" else n // 2
        have = len(accumulator) if isinstance(accumulator, tuple) else 1
        if have != registers:
            return f"{shown}: the accumulator has {registers} registers, not {have}"
    return ""


# Instructions of the table ------------------------------------------------------------------------


def _scalar(shown: str, name: str, dst: tuple[Kind, ...], src: tuple[Kind, ...]) -> str:
    try:
        entry, form = find(shown)
    except Unsupported:
        return ""
    least, most = _arity(entry.run)
    if name in ("set", "setp"):
        most = least = 3 if {"and", "or", "xor"} & set(form.modifiers) else 2
    if not least <= len(src) <= most:
        few = f"{least}" if least == most else f"{least} or more"
        return f"{shown} takes {few} sources, not {len(src)}"
    carry = "cc" in shown.split(".") or name in ("addc", "subc", "madc")
    if not 1 <= len(dst) <= (2 if carry or name in ("setp", "lop3") else 1):
        return f"{shown} does not define {len(dst)} registers"
    if name in _CHANGES_SIZE or not form.types:
        return ""
    for kinds, types in ((src, entry.sources(form)), (dst, entry.results(form))):
        for i, kind in enumerate(kinds):
            wrong = _register(shown, kind, types[min(i, len(types) - 1)], False)
            if wrong:
                return wrong
    return ""


@cache
def _arity(run: Callable[..., Any]) -> tuple[int, int]:
    """The least and the greatest number of sources: `run` takes a form and the sources."""
    parameters = list(inspect.signature(run).parameters.values())[1:]
    least = sum(
        p.kind is p.POSITIONAL_OR_KEYWORD and p.default is inspect.Parameter.empty
        for p in parameters
    )
    most = 4 if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(parameters)
    return least, most


def _size(type_: Kind) -> int | None:
    if not isinstance(type_, str) or not _SIZED.fullmatch(type_) or type_ == "pred":
        return None
    return 128 if type_ == "b128" else width_of(type_)


def _register(shown: str, kind: Kind, type_: str, wider: bool) -> str:
    """A register where a value of `type_` is wanted."""
    if isinstance(kind, tuple) or not _SIZED.fullmatch(kind) or not _SIZED.fullmatch(type_):
        return ""
    if "pred" in (kind, type_):
        return "" if kind == type_ else f"{shown}: a register of type .{kind} for .{type_}"
    have, want = _size(kind) or 0, _size(type_) or 0
    fits = have == want or (wider and have >= want)
    # There are no registers of eight bits to speak of.
    return "" if fits or want < 16 <= have else f"{shown}: a register of type .{kind} for .{type_}"
