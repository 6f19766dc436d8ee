"""`--verify-races`: PTX and TTGIR in every schedule, TTIR for every size, as a pass over modules.

It changes nothing and raises `Refuted` for a fault, `Unsupported` for what it cannot decide.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from xttir.analyses.passes import Refuted, has_layouts, is_kernel
from xttir.analyses.verify import Report
from xttir.diagnostics import InputError, Policy, Unsupported
from xttir.dialects import tt
from xttir.dialects.locations import location_of


@dataclass(frozen=True)
class VerifyRacesPass(ModulePass):
    """No schedule of a launch of a PTX or TTGIR kernel goes wrong: phases, races, proxies,
    lifetimes. No two program instances of a TTIR kernel conflict, whatever the sizes.

    `launch`: file with the launch description (PTX, TTGIR). `strict`: what only the letter of the
    rules forbids is a fault too. `assume`: TTIR: what is known of the arguments
    (`analyses.sizes.assume`); TTGIR: their values (`frontends.module_launch.known`). `entry`: which
    function of a TTGIR module. `timeout`: seconds for each kernel (TTIR).
    """

    name = "verify-races"

    launch: str = ""
    strict: bool = False
    assume: str = ""
    entry: str = ""
    timeout: int = 60

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from xttir.frontends.launch_description.match import entries

        if any(isinstance(f, tt.FuncOp) for f in op.body.block.ops) and has_layouts(op):
            self._every_schedule(op)
            return
        kernels = [f for f in op.body.block.ops if isinstance(f, tt.FuncOp) and is_kernel(f)]
        if kernels:
            self._every_size(op, kernels)
            return
        if not entries(op):
            what = "verify-races of a module without kernels"
            raise Unsupported(what, hint="it takes TTIR, TTGIR and PTX")
        if not self.launch:
            raise InputError(
                "verify-races needs a launch description",
                hint="--launch FILE; `xttir verify K.ptx --init-launch` makes one to fill in",
            )
        from xttir.analyses.launches import verify_launch
        from xttir.frontends.launch_description import load
        from xttir.frontends.launch_description.match import match

        self._decide(verify_launch(op, match(load(self.launch), op), strict=self.strict)[1])

    def _decide(self, found: Report) -> None:
        faults = [f for f in found.faults if self.strict or f.policy is not Policy.STRICT]
        if faults:
            raise Refuted(self.name, faults)
        if found.unknown:
            raise Unsupported(f"cannot decide: {found.unknown[0]}")

    def _every_schedule(self, module: ModuleOp) -> None:
        from xttir.analyses.modules import verify_module
        from xttir.dialects.syntax.printer import module_text
        from xttir.refine import after_barriers
        from xttir.tools.verify_ttgir import asked, completed

        question = asked(module, self.launch, self.assume, self.entry)
        given = question.known()
        found = question.sure_faults(self.timeout)
        if found:
            raise Refuted(self.name, found)
        file = location_of(module).file
        text = module_text(module, locations=True)
        after = completed(lambda: after_barriers.complete(module, text, file))
        self._decide(verify_module(after.module, given, strict=self.strict))

    def _every_size(self, module: ModuleOp, kernels: list[tt.FuncOp]) -> None:
        from xttir.analyses.programs import grid_words
        from xttir.analyses.sizes.assume import from_words
        from xttir.analyses.sizes.prove import prove

        results = [
            prove(from_words(module, kernel, grid_words(kernel, self.assume)), self.timeout)
            for kernel in kernels
        ]
        faults = [fault for result in results for fault in result.faults]
        if faults:
            raise Refuted(self.name, faults)
        for result in results:
            for place, why in result.open:
                raise Unsupported(f"cannot decide: {why}", place)
