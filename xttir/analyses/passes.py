"""The analyses as passes over modules: they change nothing and raise `Refuted` for a fault."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from xttir.diagnostics import Fault, InputError, Policy, Unsupported
from xttir.dialects import tt
from xttir.dialects.locations import location_of


class Refuted(DiagnosticException):
    """A verification pass found faults: `faults`, all of them."""

    def __init__(self, name: str, faults: list[Fault]):
        self.name = name
        self.faults = faults
        first = faults[0]
        place = f"{first.locations[0]}: " if first.locations else ""
        more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
        super().__init__(f"{place}error[{first.kind}]: {first.message}{more}")


@dataclass(frozen=True)
class VerifyRacesPass(ModulePass):
    """No schedule of a launch of a PTX kernel goes wrong: phases, races, proxies, lifetimes.
    No two program instances of a TTIR kernel conflict, whatever the sizes.

    `launch`: file with the launch description (PTX). `strict`: what only the letter of the rules
    forbids is a fault too. `assume`: what is known of the arguments of a TTIR kernel
    (`analyses.sizes.assume`); `timeout`: seconds for each kernel.
    """

    name = "verify-races"

    launch: str = ""
    strict: bool = False
    assume: str = ""
    timeout: int = 60

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from xttir.frontends.launch_description import load
        from xttir.frontends.launch_description.match import entries, match

        kernels = [f for f in op.body.block.ops if isinstance(f, tt.FuncOp) and is_kernel(f)]
        if kernels:
            self._every_size(op, kernels)
            return
        if not entries(op):
            what = "verify-races of a module without PTX kernels"
            raise Unsupported(what, hint="it takes TTIR and PTX")
        if not self.launch:
            raise InputError(
                "verify-races needs a launch description",
                hint="--launch FILE; `xttir verify K.ptx --init-launch` makes one to fill in",
            )
        from xttir.analyses.launches import verify_launch

        description = match(load(self.launch), op)
        _, result = verify_launch(op, description, strict=self.strict)
        faults = [f for f in result.faults if self.strict or f.policy is not Policy.STRICT]
        if faults:
            raise Refuted(self.name, faults)
        if result.unknown:
            raise Unsupported(f"cannot decide: {result.unknown[0]}")

    def _every_size(self, module: ModuleOp, kernels: list[tt.FuncOp]) -> None:
        from xttir.analyses.sizes.assume import from_words
        from xttir.analyses.sizes.prove import prove

        results = []
        for kernel in kernels:
            if any(op.name.partition(".")[0] in LAYOUT_DIALECTS for op in kernel.walk()):
                raise Unsupported(
                    "verify-races after layouts are chosen (TTGIR)",
                    location_of(kernel),
                    "it takes TTIR, and PTX with --launch",
                )
            results.append(prove(from_words(module, kernel, self.assume), self.timeout))
        faults = [fault for result in results for fault in result.faults]
        if faults:
            raise Refuted(self.name, faults)
        for result in results:
            for place, why in result.open:
                raise Unsupported(f"cannot decide: {why}", place)


LAYOUT_DIALECTS = ("ttg", "ttng", "nvws", "gluon")


def is_kernel(function: tt.FuncOp) -> bool:
    """Whether a function is launched rather than called."""
    visibility = function.sym_visibility
    return bool(function.body.blocks) and (visibility is None or visibility.data == "public")
