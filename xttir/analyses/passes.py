"""The analyses as passes over modules: they change nothing and raise `Refuted` for a fault."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from xttir.diagnostics import Fault, InputError, Policy, Unsupported


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

    `launch`: file with the launch description. `strict`: what only the letter of the rules forbids
    is a fault too.
    """

    name = "verify-races"

    launch: str = ""
    strict: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from xttir.frontends.launch_description import load
        from xttir.frontends.launch_description.match import entries, match

        if not entries(op):
            what = "verify-races of a module without PTX kernels"
            raise Unsupported(what, hint="it takes modules of the `ptx` dialect")
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
