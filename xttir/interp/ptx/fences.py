"""Fences and griddepcontrol. Rules: PTX ISA 9.1, sections 9.7.13.5 and 9.7.13.13."""

from __future__ import annotations

import numpy as np

from xttir.analyses.events import Fence, GridDependency, Proxy, ProxyFence, Scope, Sem, Space
from xttir.interp.ptx.actual_step import ActualStep
from xttir.interp.ptx.instruction import meaning

SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "gl": Scope.GPU}
SCOPES |= {"sys": Scope.SYS}
SEMS = {"sc": Sem.SC, "acq_rel": Sem.ACQ_REL, "acquire": Sem.ACQUIRE, "release": Sem.RELEASE}


def scope_of(step: ActualStep, default: Scope) -> Scope:
    return next((SCOPES[m] for m in step.ins.modifiers if m in SCOPES), default)


def _sem_of(step: ActualStep, default: Sem) -> Sem:
    return next((SEMS[m] for m in step.ins.modifiers if m in SEMS), default)


@meaning("membar")
def membar(step: ActualStep) -> None:
    step.emit(Fence(step.ins.index, step.lanes, Sem.SC, scope_of(step, Scope.GPU)))


@meaning("fence")
def fence(step: ActualStep) -> None:
    restricted = any(m.startswith("sync_restrict") for m in step.ins.modifiers)
    sem = _sem_of(step, Sem.ACQ_REL)
    scope = scope_of(step, Scope.GPU)
    step.emit(Fence(step.ins.index, step.lanes, sem, scope, "shared" if restricted else ""))


@meaning("fence.mbarrier_init")
def mbarrier_init(step: ActualStep) -> None:
    step.emit(Fence(step.ins.index, step.lanes, Sem.RELEASE, Scope.CLUSTER, "mbarrier_init"))


_EVERYWHERE = frozenset((Space.GLOBAL, Space.SHARED))


@meaning("fence.proxy")
def proxy(step: ActualStep) -> None:
    ins = step.ins
    if ins.has("alias"):
        return
    sem = _sem_of(step, Sem.ACQ_REL)
    if ins.has("tensormap::generic"):
        address = None
        if ins.src:
            address = np.broadcast_to(step.address(ins.src[0]), (step.n,))
        step.emit(
            ProxyFence(
                ins.index,
                step.lanes,
                Proxy.TENSORMAP,
                frozenset((Space.GLOBAL,)),
                sem,
                scope_of(step, Scope.CTA),
                address,
            )
        )
        return
    spaces = _EVERYWHERE
    if ins.has("global"):
        spaces = frozenset((Space.GLOBAL,))
    elif any(m.startswith(("shared", "sync_restrict")) for m in ins.modifiers):
        spaces = frozenset((Space.SHARED,))
    scope = scope_of(step, Scope.CTA)
    step.emit(ProxyFence(ins.index, step.lanes, Proxy.ASYNC, spaces, sem, scope))


@meaning("griddepcontrol.wait")
def dependency_wait(step: ActualStep) -> None:
    step.emit(GridDependency(step.ins.index, step.lanes, "wait"))


@meaning("griddepcontrol.launch_dependents")
def launch_dependents(step: ActualStep) -> None:
    step.emit(GridDependency(step.ins.index, step.lanes, "launch_dependents"))
