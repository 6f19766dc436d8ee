"""The `triton` pass: passes of the installed Triton on a module, in a process of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NameLoc, StringAttr
from xdsl.passes import ModulePass

from xttir.diagnostics import InputError


@dataclass(frozen=True)
class TritonPass(ModulePass):
    """`passes`: a textual pipeline, as `triton-opt` takes it."""

    name = "triton"

    passes: str

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from xttir.dialects.locations import location_of
        from xttir.dialects.syntax.printer import module_text
        from xttir.frontends.mlir import read_module
        from xttir.refine.pipeline import PassFailed, apply

        file = location_of(op).file or "module.mlir"
        _keep_names(op)
        try:
            made = apply(module_text(op, locations=True), self.passes, file).stages[-1]
        except PassFailed as error:
            raise InputError(str(error), location_of(op)) from error
        new = read_module(ctx, made.located or made.text, file)
        op.attributes = dict(new.attributes)
        op.properties = dict(new.properties)
        op.detach_region(op.regions[0])
        op.add_region(new.detach_region(new.regions[0]))


def _keep_names(module: ModuleOp) -> None:
    """Put the names of values into their locations: Triton prints names from there."""
    for op in module.walk():
        if len(op.results) == 1:
            op.location = _named(op.location, op.results[0].name_hint)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    argument.location = _named(argument.location, argument.name_hint)


def _named(location: Any, name: str | None) -> Any:
    if name is None or isinstance(location, NameLoc):
        return location
    return NameLoc(StringAttr(name), location)
