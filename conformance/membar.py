"""Triton's own tests of barrier insertion: is every barrier that they expect needed, and enough?

    python -m conformance.membar --lit CHECKOUT [--lit CHECKOUT] [--only NAME] [--json FILE]

A checkout holds `test/`. Of every function in `test/Analysis/test-membar*.mlir` and
`test/TritonNvidiaGPU/membar*.mlir` that the installed Triton reads, the passes of the RUN line are
run; the result must be what FileCheck expects; it must be free of races with its barriers; and
without any one of them it must not be, unless that barrier is redundant: then the table says which
other barriers order the same accesses, or that no two threads conflict across it. In the latter
case every access gets a layout of its own (`other_threads`), so that threads do conflict, and the
question is asked again. Loops whose bounds are arguments run 0 to 3 times, conditions go both ways.
Memory that is an argument is taken to be apart from all other, and waits that nobody in the program
ends are ended from outside (`somebody_arrives`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Attribute, BlockArgument, Operation

from conformance import lit_functions as lit
from conformance.other_threads import permute
from conformance.somebody_arrives import Somebody, initialise
from conformance.ttgir_reasons import apart
from xttir.diagnostics import Fault, Kind, Policy, XttirError
from xttir.dialects import cf, scf, tt, ttg, ttng
from xttir.dialects.layouts.placement import integer_attribute
from xttir.frontends.mlir import parse_module
from xttir.interp.physical import bytes_of_memory, in_tensor_memory
from xttir.interp.tracing import Launch, control
from xttir.interp.tracing.launch import Number
from xttir.interp.tracing.ttg_memory import ALIGNMENT
from xttir.refine.pipeline import Applied, apply

FILES = ("test/Analysis/test-membar*.mlir", "test/TritonNvidiaGPU/membar*.mlir")
PASSES = {"test-print-membar": "triton-nvidia-gpu-membar"}
"""The driver's passes for tests, and those that do the same in a compilation."""
OWN = ("allocate-shared-memory", "convert-scf-to-cf", "triton-nvidia-tma-lowering")
BARRIERS = ("ttg.barrier", "gpu.barrier", "ttng.cluster_barrier", "ttng.cluster_arrive",
            "ttng.cluster_wait", "ttng.fence_mbarrier_init_release_cluster")  # fmt: skip
ABOUT_BARRIERS = (Kind.RACE, Kind.PROXY, Kind.LIFETIME)
"""Faults that barriers are there to prevent; these tests wait for what nobody arrives at, and read
what nobody wrote."""
UNPUBLISHED = "without being ordered after its initialisation"
"""In the text of a phase fault that barriers prevent."""


_NOT_THERE = "the copy to both blocks counts on a barrier that only the first block has"
_NO_FENCE = "no proxy fence, which another pass inserts"
OWN_FAULTS = {
    "convert_layout_trivial_then_tma_multicast_cluster_barrier": _NOT_THERE,
    "tma_load": _NO_FENCE,
    "tma_special_cases": "a barrier is initialised and ended twice, and every wait is for its "
    "first phase: nothing waits for the later copies",
    "no_cluster_when_same_allocation": _NOT_THERE,
    "cluster_barrier_between_lifetimes_same_offset": _NOT_THERE,
    "cluster_tma_multicast_with_per_cta_barrier": _NOT_THERE,
    "no_cluster_tma_without_multicast": "only the first block waits for the copies of both",
    "no_barrier_between_different_index_init_inval": "a barrier is ended that never began",
    "no_end_cluster_barrier_for_mma_with_tmem_teardown": "nobody waits for the product",
    "insert_fence_and_relaxed_cluster_barrier_before_wait_after_tmem_copy": "nobody waits for the "
    "copy to tensor memory",
    "wait_after_mma": "nobody waits for the product if its barrier's predicate does not hold",
    "membar_alias_through_warp_specialize": "both partitions write one buffer, in no order",
    "warp_dot_multi_read": "copies overwrite the operands of a product in flight (pendings = 1), "
    "and the program ends without waiting for it",
    "async_copy_global_to_local": "the copy is never waited for",
    "tmem_copy_after_alloc": f"{_NO_FENCE}, and nothing waits for the copy to tensor memory",
    "cluster_clc_with_per_cta_barrier": "the program ends without waiting for the request",
    "convert_layout_cluster_barrier": "a store into shared memory of the other block "
    "(st.shared::cluster in the PTX of Triton 3.9) that a barrier of its own block does not order",
}
"""Tests whose program is at fault whatever the barriers are, and why."""


@dataclass
class Barrier:
    """A barrier of a module. `inserted`: it does not stand in the test's input. `verdict` without
    it: "refuted", "refuted with other layouts" or "redundant"; `why`."""

    index: int
    name: str
    inserted: bool
    verdict: str = ""
    why: str = ""


@dataclass
class Row:
    """What became of a function. `status`: "rejected" (by the installed Triton), "unsupported",
    "faulty", "right" (FileCheck agrees with this release), or "other": this release inserts other
    barriers, and what it makes is verified; "other layouts": verified, but not if other threads
    held the elements. `spelled`: what had to be written otherwise for this release. `own`: what is
    wrong with the test's program itself, whatever the barriers. `launches`: with how many sets of
    arguments."""

    file: str
    line: int
    name: str
    prefixes: str
    status: str = ""
    why: str = ""
    spelled: str = ""
    own: str = ""
    launches: int = 0
    expected: bool = False
    """FileCheck agrees with the installed Triton."""
    barriers: list[Barrier] = field(default_factory=list)
    seconds: float = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.membar")
    parser.add_argument("--lit", type=Path, action="append", required=True, help="a checkout")
    parser.add_argument("--only", default="", help="only functions whose name matches")
    parser.add_argument("--json", type=Path, help="write the table to this file, too")
    parser.add_argument("-v", action="store_true", help="every barrier, not only those to look at")
    args = parser.parse_args()
    control.MOST_ITERATIONS = 1000  # Some tests go round for ever where their condition holds.
    rows: list[Row] = []
    for checkout in args.lit:
        for pattern in FILES:
            for path in sorted(checkout.glob(pattern)):
                for row in file_rows(path, checkout.name, args.only):
                    rows.append(row)
                    print("\n".join(lines_of(row, args.v)), flush=True)
    print(summary(rows))
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return int(any(row.status == "faulty" for row in rows))


def file_rows(path: Path, checkout: str, only: str) -> Iterator[Row]:
    """Every function of a file under every RUN line whose passes there are."""
    runs = [run for run in lit.runs_of(path.read_text()) if pipeline(run, "")]
    for chunk in lit.chunks(path):
        for function in chunk:
            for run in runs:
                if not re.search(only, function.name):
                    continue
                name = f"{checkout}/{path.parent.name}/{path.name}"
                row = Row(name, function.line, function.name, ",".join(run.prefixes[1:]))
                began = time.process_time()
                try:
                    judge(row, function, chunk, run)
                except XttirError as error:
                    row.status, row.why = "unsupported", str(error)[:200]
                row.seconds = round(time.process_time() - began, 2)
                yield row


def pipeline(run: lit.Run, module: str) -> str:
    """The passes of a RUN line for a module; "" if some are not in the installed Triton."""
    target = re.search(r"cuda:(\d+)", module)
    names = []
    for flag in run.flags:
        if flag == "split-input-file":
            continue
        name = PASSES.get(flag, flag)
        if name not in (*PASSES.values(), *OWN):
            return ""
        if name == "triton-nvidia-gpu-membar":
            # Partitions need their warps, and tensor memory its places; the compiler gives them
            # before it inserts barriers.
            if "ttg.num-warps" in module:
                names.append("tritongpu-allocate-warp-groups")
            if "ttng.tmem_alloc" in module:
                names.append("triton-tensor-memory-allocation")
            name += f"{{compute-capability={target[1] if target else 90}}}"
        names.append(name)
    return ",".join(names)


def judge(row: Row, function: lit.Function, chunk: list[lit.Function], run: lit.Run) -> None:
    """Fill in the row of a function."""
    text = lit.module_of(lit.with_callees(function, chunk))
    made, row.spelled = made_by_triton(text, run, row.file)
    if made is None:
        row.status, row.why, row.spelled = "rejected", row.spelled, ""
        return
    last = made.stages[-1]
    after = lit.printed(last.text, function.name)
    said = lit.agrees(function, after, run.prefixes)
    if said and not lit.agrees(function, in_two(after), run.prefixes):
        said, spelled = "", "ttng.cluster_barrier: in the test an arrive and a wait"
        row.spelled = f"{row.spelled}; {spelled}".strip("; ")
    row.expected = not said
    before = Counter(op.name for op in barriers_of(parse_module(made.stages[0].text, verify=False)))
    module = parse_module(last.text, f"{function.name}.mlir", verify=False)
    there = barriers_of(module)
    # Which ones stood in the input cannot be told apart: the first of a name are taken for those.
    for index, op in enumerate(there):
        own = before[op.name] > 0
        before[op.name] -= 1
        row.barriers.append(Barrier(index, op.name, not own))
    launches = list(launches_of(parse_module(made.stages[0].text, verify=False), function.name))
    row.launches = len(launches)
    somebody = Somebody()
    faults = Faults(last.text, function.name, launches, somebody)
    found = faults.without()
    if found and function.name not in OWN_FAULTS:
        row.status, row.why = "faulty", "; ".join(sorted(found))[:300]
        return
    row.own = f"{OWN_FAULTS[function.name]} ({'; '.join(sorted(found))})" if found else ""
    others = Faults(last.text, function.name, launches, somebody, permuted=True)
    for barrier in row.barriers:
        decide(barrier, len(there), faults, others)
    row.status, row.why = "right", ""
    if said:
        missed = "; ".join(sorted(others.without() - found))
        row.status = "other layouts" if missed else "other"
        row.why = re.sub(r"/tmp/\S*/(checks|input):", "", said)
        row.why += f" (with other layouts: {missed})" if missed else ""
        with apart():
            alone = [Faults(last.text, function.name, launches, somebody, p) for p in (False, True)]
            within = sorted(set().union(*(f.without() for f in alone)) - found)
        row.why += f" (ordered within other ops: else {within[0]})" if within else ""


def made_by_triton(text: str, run: lit.Run, file: str) -> tuple[Applied | None, str]:
    """The stages of a module, and how it had to be spelled for this release; or None, and what
    Triton said."""
    spelled = ""
    for _ in range(len(SPELLINGS) + 1):
        try:
            return apply(text, pipeline(run, text), file), spelled
        except XttirError as error:
            said = str(error).partition("error: ")[2][:160] or str(error)
            log = getattr(error, "log", "").partition("LLVM ERROR: ")[2].partition("\n")[0]
            changed = next((s for s in SPELLINGS if s.said in said and s.name not in spelled), None)
            if changed is None:
                return None, f"{said} {log}".strip()
            text = changed.change(text)
            spelled = f"{spelled}; {changed.name}".strip("; ")
    return None, said


def in_two(text: str) -> str:
    """Cluster barriers that publish as earlier releases print them."""
    return re.sub(
        r"(?m)^(\s*)ttng\.cluster_barrier(?: \{relaxed = false\})?$",
        r"\1ttng.cluster_arrive {relaxed = false}\n\1ttng.cluster_wait",
        text,
    )


def _with_allocations(text: str) -> str:
    """The types of subslices with the shapes of the allocations that they are cut from, where they
    are made and where they are used."""
    cut = (
        r"(%\w+) = ttg\.memdesc_subslice .*: !ttg\.memdesc<([\dx]+)x[a-z].* -> (!ttg\.memdesc<.*)>"
    )
    lines = text.splitlines()
    for value, shape, ty in [m.groups() for line in lines if (m := re.search(cut, line))]:
        lines = [
            line.replace(f"{ty}>", f"{ty}, {shape}>") if re.search(rf"{value}\b", line) else line
            for line in lines
        ]
    return "\n".join(lines)


ROWS = (
    "#ttg.slice<{dim = 0, parent = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [32, 1], \
warpsPerCTA = [1, 4], order = [1, 0]}>}>"
)


def _with_rows(text: str) -> str:
    """Row numbers of gathers with a layout."""
    return re.sub(r"tensor<(\d+)xi32>", rf"tensor<\1xi32, {ROWS}>", text)


@dataclass(frozen=True)
class Spelling:
    """How a test is written for this release where Triton `said` something."""

    name: str
    said: str
    change: Callable[[str], str]


SPELLINGS = (
    Spelling(
        "for cuda:100", "requires tcgen05 support", lambda t: t.replace("cuda:90", "cuda:100")
    ),
    Spelling(
        "subslices with the shapes of their allocations, row numbers with a layout",
        "must have the same allocation shape",
        lambda t: _with_rows(_with_allocations(t)),
    ),
    Spelling(
        "an array of barriers has two dimensions",
        "result rank must be input rank - 1",
        lambda t: re.sub(r"memdesc<([2-9])xi64", r"memdesc<\1x1xi64", t),
    ),
)


def barriers_of(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if op.name in BARRIERS]


class Faults:
    """Faults of a module without some of its barriers, over all launches."""

    def __init__(
        self,
        text: str,
        name: str,
        launches: list[Launch],
        somebody: Somebody,
        permuted: bool = False,
    ):
        self.text, self.name, self.launches = text, name, launches
        self.somebody, self.permuted = somebody, permuted
        self.stuck: set[int] = set()
        """Lines at which the program stands still all the same."""
        self.open: set[str] = set()
        """What could not be decided."""
        self.letters: dict[frozenset[int], set[str]] = {}
        """Faults of the letter only."""
        self._known: dict[frozenset[int], frozenset[str]] = {}

    def without(self, *indices: int) -> frozenset[str]:
        """Texts of the faults, equal for equal pairs of places."""
        key = frozenset(indices)
        if key not in self._known:
            self._known[key] = frozenset(self._verify(key))
        return self._known[key]

    def _verify(self, removed: frozenset[int]) -> Iterator[str]:
        module = parse_module(self.text, f"{self.name}.mlir", verify=False).clone()
        for index, op in enumerate(barriers_of(module)):
            if index in removed:
                op.detach()
                op.erase()
        # What a kernel does at its beginning with tensor memory is no part of these functions.
        module.attributes.pop("ttg.tensor_memory_size", None)
        give_memory(module, self.name)
        initialise(module, self.name)
        if self.permuted:
            permute(module)
        letters = self.letters[removed] = set()
        for launch in self.launches:
            report = self.somebody.verified(module, launch)
            self.open.update(str(why)[:100] for why in report.unknown)
            for fault in report.faults:
                if fault.kind is Kind.DEADLOCK:
                    self.stuck.add(fault.locations[0].line)
                if fault.kind not in ABOUT_BARRIERS and UNPUBLISHED not in fault.message:
                    continue
                if fault.policy is Policy.STRICT:
                    letters.add(told(fault))
                else:
                    yield told(fault)


def give_memory(module: ModuleOp, name: str) -> None:
    """Places for the memory that is passed to a function: after all other."""
    function = tt.function_named(module, name)
    assert function is not None
    held = integer_attribute(module, "ttg.shared") or 0
    block, column = function.body.blocks[0], 0
    first = block.first_op
    assert first is not None
    for argument in list(block.args):
        if not isinstance(ty := argument.type, ttg.MemDescType):
            continue
        if in_tensor_memory(ty):
            places = {"tensor_memory_col_offset": column, "tensor_memory_row_offset": 0}
            made = ttng.TMEMAllocOp.create(result_types=[ty], attributes=_numbers(places))
            column += ty.get_shape()[-1]
        else:
            held = -(-held // ALIGNMENT) * ALIGNMENT
            places = {"allocation.offset": held}
            made = ttg.LocalAllocOp.create(result_types=[ty], attributes=_numbers(places))
            held += bytes_of_memory(ty)
        block.insert_op_before(made, first)
        argument.replace_all_uses_with(made.results[0])
    module.attributes["ttg.shared"] = IntegerAttr(held, 32)


def _numbers(values: dict[str, int]) -> dict[str, Attribute]:
    return {name: IntegerAttr(value, 32) for name, value in values.items()}


def told(fault: Fault) -> str:
    places = sorted({place.line for place in fault.locations})
    return f"{fault.kind} at lines {', '.join(map(str, places))}"


def decide(barrier: Barrier, count: int, faults: Faults, permuted: Faults) -> None:
    """Whether the module is refuted without a barrier, and if not, why not."""
    one = faults.without(barrier.index) - faults.without()
    if one:
        barrier.verdict, barrier.why = "refuted", sorted(one)[0]
        return
    barrier.verdict = "redundant"
    others = [n for n in range(count) if n != barrier.index]
    same = [n for n in others if faults.without(barrier.index, n) - faults.without(n)]
    if same:
        barrier.why = f"barriers {', '.join(map(str, same))} order the same accesses"
    elif faults.without(*range(count)) - faults.without(*others):
        barrier.why = "several others together order the same accesses"
    else:
        barrier.why = "no two threads conflict across it"
        more = permuted.without(barrier.index) - permuted.without()
        if more:
            barrier.verdict = "refuted with other layouts"
            barrier.why = f"as they are, each thread meets what is its own; {sorted(more)[0]}"
        elif faults.stuck:
            barrier.verdict = "not decided"
            lines = ", ".join(map(str, sorted(faults.stuck)))
            barrier.why = f"the program stands still at lines {lines}"
        elif faults.open:
            barrier.verdict, barrier.why = "not decided", sorted(faults.open)[0]
        elif faults.letters[frozenset([barrier.index])] - faults.letters[frozenset()]:
            barrier.why = "only the letter of the rules asks for it"


def launches_of(module: ModuleOp, name: str) -> Iterator[Launch]:
    """Arguments of a function: trip counts 0 to 3 of loops over arguments, both values of
    conditions, small numbers for the rest."""
    function = tt.function_named(module, name)
    assert function is not None
    arguments = function.body.blocks[0].args
    bounds: dict[int, str] = {}
    for op in function.walk():
        if isinstance(op, scf.ForOp):
            for role, value in (("low", op.lb), ("high", op.ub), ("step", op.step)):
                if isinstance(value, BlockArgument) and value in arguments:
                    bounds[value.index] = role
    trips = range(4) if "high" in bounds.values() else (0,)
    open_ended = {
        last.operands[0]
        for block in function.body.blocks
        if isinstance(last := block.last_op, cf.ConditionalBranchOp)
    }
    """Were they given, a loop that they keep going would never end."""
    free = [
        a.index
        for a in arguments
        if isinstance(a.type, IntegerType | IndexType)
        and a.index not in bounds
        and a not in open_ended
    ]
    for trip in trips:
        by_role = {"low": 0, "high": trip, "step": 1}
        fixed = {index: by_role[role] for index, role in bounds.items()}
        for values in itertools.islice(itertools.product((0, 1), repeat=len(free)), 8):
            numbers = {**fixed, **dict(zip(free, values, strict=True))}
            yield Launch(name, (1, 1, 1), dict[int, Number](numbers))


def lines_of(row: Row, everything: bool) -> list[str]:
    """A row of the table, and the barriers to look at."""
    head = f"{row.status:11} {row.file}:{row.line} {row.name} {row.prefixes}"
    lines = [f"{head} {row.why}".rstrip()]
    if row.spelled:
        lines.append(f"    spelled otherwise: {row.spelled}")
    if row.own:
        lines.append(f"    in itself: {row.own}")
    for b in row.barriers:
        if b.verdict in ("redundant", "not decided") or everything:
            where = "inserted" if b.inserted else "in the input"
            lines.append(f"    {b.index} {b.name} ({where}): {b.verdict}: {b.why}")
    return lines


def summary(rows: list[Row]) -> str:
    """Counts of functions and of barriers."""
    words = Counter(row.status for row in rows)
    told: Counter[Any] = Counter()
    for row in rows:
        for b in row.barriers:
            if b.verdict:
                told[("inserted" if b.inserted else "in the input", b.verdict)] += 1
    lines = [f"{len(rows)} functions: " + ", ".join(f"{n} {w}" for w, n in words.most_common())]
    lines.append(f"{sum(bool(r.spelled) for r in rows)} are spelled otherwise in this release")
    for (where, verdict), count in sorted(told.items()):
        lines.append(f"barriers {where}: {count} {verdict}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
