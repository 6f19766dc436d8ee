"""The `sanitize` pass: run a function of the module and refute it when a check fails."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from xttir.analyses.passes import Refuted
from xttir.diagnostics import InputError, Unsupported


@dataclass(frozen=True)
class SanitizePass(ModulePass):
    """No fault in one run on given or random arguments: bounds, races, initialisation, ...

    `arguments`: as for `xttir run --arg`, separated by semicolons. `launch`: file with a launch
    description instead. `entry`: the function; `grid`: X,Y,Z; `checks` as for `--checks`.
    """

    name = "sanitize"

    arguments: str = ""
    launch: str = ""
    entry: str = ""
    grid: tuple[int, ...] = (1, 1, 1)
    checks: str = "all"
    seed: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from xttir.frontends.launch_description import load
        from xttir.frontends.module_launch import bind, describe, find_sizes, split_argument
        from xttir.interp.executor import run_launch
        from xttir.policy import RunPolicy

        try:
            policy = RunPolicy(seed=self.seed).with_checks(self.checks)
        except ValueError as error:
            raise InputError(f"sanitize: {error}") from error
        x, y, z = (*self.grid, 1, 1, 1)[:3]
        if self.launch:
            description = load(self.launch, module=True)
        else:
            words = [word for word in self.arguments.split(";") if word.strip()]
            described = describe(
                op,
                dict(split_argument(word) for word in words),
                function=self.entry,
                grid=(x, y, z),
                seed=self.seed,
            )
            description = find_sizes(
                op, described.description, described.open, seed=self.seed, policy=policy
            )
        result = run_launch(bind(op, description, seed=self.seed).launch, policy)
        if result.faults:
            raise Refuted(self.name, result.faults)
        if result.counts.not_done:
            raise Unsupported(f"sanitize could not check {next(iter(result.counts.not_done))}")
