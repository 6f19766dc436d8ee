"""What programs of a TTGIR module do to each other's global memory, besides its schedules.

With the tensors of a launch the module is run with every access checked, and asked about every size
under the contract of the launch. Without, only races are asked for, of kernels no argument of which
scales an address: whether rows overlap is for strides to say, and nobody has. Layouts say nothing
about global memory, so the questions are those of TTIR. What cannot be decided is not said: these
are faults that are sure, the verdict on schedules stands beside them.
"""

from __future__ import annotations

from contextlib import suppress

from xdsl.dialects.builtin import IndexType, IntegerType, ModuleOp
from xdsl.ir import Block, SSAValue

from xttir.analyses.sizes.assume import from_words
from xttir.analyses.sizes.contract import axes_used
from xttir.analyses.sizes.prove import contract_of, prove
from xttir.diagnostics import Fault, InputError, Kind, Unsupported
from xttir.dialects import arith, tt
from xttir.interp.executor import run_launch
from xttir.interp.launch import Launch
from xttir.policy import RunPolicy

MOST_PROGRAMS = 65535
"""Along each axis of a grid that nothing is known of."""

ROOM = 1 << 20
"""Elements of tensors that nothing is known of, so that a run can show where programs meet."""


def faults_at(launch: Launch, seconds: float) -> list[Fault]:
    """Faults of a launch, which is run, and of others that keep to its contract. `seconds`: for the
    latter."""
    contract = None
    with suppress(Unsupported):
        contract = contract_of(launch)  # before the run changes integers that it reads
    found = list(run_launch(launch, RunPolicy(cc=launch.cc)).faults)
    if found or contract is None:
        return found
    try:
        return list(prove(contract, seconds).faults)
    except Unsupported:
        return []


def races_of_any(module: ModuleOp, kernel: tt.FuncOp, seconds: float) -> list[Fault]:
    """Races between programs of a kernel of which no launch is known."""
    if scales_addresses(kernel):
        return []
    arguments = kernel.body.blocks[0].args
    names = [a.name_hint for a in arguments if isinstance(a.type, tt.PointerType) and a.name_hint]
    words = [grid_words(kernel), *(f"len({name}) == {ROOM}" for name in names)]
    try:
        result = prove(from_words(module, kernel, "; ".join(words)), seconds)
    except (Unsupported, InputError):
        return []
    return [f for f in result.faults if f.kind is Kind.RACE]


def grid_words(kernel: tt.FuncOp, words: str = "") -> str:
    """`words` with what is taken of a grid that they leave open: one program along an axis that
    the kernel does not ask about, and not so many along the others that offsets made from a
    program's number alone wrap."""
    if "grid" in words:
        return words
    used = axes_used(kernel)
    mine = [
        f"grid[{axis}] <= {MOST_PROGRAMS}" if axis in used else f"grid[{axis}] == 1"
        for axis in range(3)
    ]
    return "; ".join([*([words] if words else []), *mine])


def scales_addresses(kernel: tt.FuncOp) -> bool:
    """Whether some product has an integer argument of the kernel as a factor, or what it makes."""
    todo: list[SSAValue] = [
        a for a in kernel.body.blocks[0].args if isinstance(a.type, IntegerType | IndexType)
    ]
    seen: set[SSAValue] = set()
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op = use.operation
            if isinstance(op, arith.MuliOp):
                return True
            if isinstance(op, arith.CmpiOp | tt.LoadOp | tt.StoreOp):
                continue
            if op.regions or op.successors:
                blocks: list[Block] = [b for r in op.regions for b in r.blocks]
                todo += (a for b in (*blocks, *op.successors) for a in b.args)
            todo += op.results
    return False
