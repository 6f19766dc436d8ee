"""Kernels to mutate, each with the launch of a user's program where there is one.

A kernel is known by a name: `script:NAME [ARGS]` (tests/data/scripts), `bench:NAME`
(benchmarks/kernels), `op:NAME` (an operation of liger-kernel or fla-core, of the tables in this
folder), `corpus:NAME` (TTIR in the shared folder, which gets inputs of ours).
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conformance.ttgir_modules import smaller
from conformance.validate import SHARED
from xttir.refine.stages import Stage
from xttir.refine.world import Case

ROOT = Path(__file__).parents[1]
TABLES = ("liger_losses", "liger_layers", "fla_recurrent", "fla_attention", "fla_modules")

KERNELS = (
    "script:attention 256", "script:attention 256 causal", "script:attention 256 ws",
    "script:matmul_pointer 256", "script:matmul_tma 256", "script:matmul_persistent 256",
    "script:matmul_persistent 256 ws", "script:matmul_device_desc 256",
    "script:rows_by_descriptor", "bench:softmax",
    "bench:layer_norm",
    "corpus:fla_attn__parallel_attn_fwd_kernel", "corpus:fla_gla__chunk_fwd_kernel_h",
    "corpus:fla_gated_delta_rule__recompute_w_u_fwd_kernel",
    "corpus:fla_gla__chunk_local_cumsum_vector_kernel",
    "corpus:fla_hgrn__chunk_hgrn_fwd_kernel_h", "corpus:fla_retention__chunk_fwd_kernel_o",
    "corpus:liger_cross_entropy__liger_cross_entropy_kernel",
    "corpus:liger_layer_norm___layer_norm_forward_kernel", "corpus:liger_rope___triton_rope",
    "corpus:liger_na___neighborhood_mask_kernel",
    "op:cross_entropy", "op:swiglu", "op:sparsemax", "op:cumsum",
)  # fmt: skip


@dataclass
class Kernel:
    """`stages`: the module as the front end made it and after every pass. `cases`: a launch."""

    name: str
    kernel: str
    stages: list[Stage]
    cases: list[Case]


class _Enough(BaseException):
    """The launch that was wanted has been seen."""


def kernels(name: str, cc: int, programs: int) -> list[Kernel]:
    """The kernels of `name`, at most three; grids have at most `programs` programs. To be called in
    a process of its own."""
    kind, _, rest = name.partition(":")
    if kind == "corpus":
        return [_of_corpus(rest, cc)]
    if kind == "op":
        return _of_program(_operation(rest), cc, name, programs)
    words = rest.split()
    folder = "tests/data/scripts" if kind == "script" else "benchmarks/kernels"
    path = ROOT / folder / f"{words[0]}.py"
    return _of_program(lambda: _script(path, words[1:]), cc, name, programs)


def _of_corpus(name: str, cc: int) -> Kernel:
    from xttir.refine.capture import capture_module

    path = next(iter(sorted((SHARED / "corpus" / "triton" / name).glob("*/ttir.loc.mlir"))))
    stages = capture_module(Stage("", path.read_text(), file=path.name), cc)
    return Kernel(f"corpus:{name}", name, stages, [])


def _script(path: Path, words: list[str]) -> None:
    from xttir.tools.script import script_runner

    sys.path.insert(0, str(path.parent))
    os.environ["BENCH_LAUNCHES"] = "1"
    script_runner(str(path), words)()


def _operation(name: str) -> Callable[[], None]:
    from conformance import compare
    from conformance.works import operation

    for table in TABLES:
        if name not in compare.TABLE:
            importlib.import_module(f"conformance.{table}")
    return operation(compare.TABLE[name])


def _of_program(work: Callable[[], None], cc: int, name: str, programs: int) -> list[Kernel]:
    """The kernels that `work` launches."""
    import torch

    from conformance.worker import limit_autotuning
    from xttir.policy import RunPolicy
    from xttir.refine.capture import capture_launch
    from xttir.refine.inputs import case_of
    from xttir.refine.pipeline import PassFailed
    from xttir.tools.collect import open_session

    torch.set_num_threads(1)
    found: list[Kernel] = []
    seen: set[str] = set()

    def before(launch: Any) -> None:
        if launch.kernel in seen:
            return
        seen.add(launch.kernel)
        try:
            stages = capture_launch(launch)
        except PassFailed as error:
            stages = error.stages
        used = launch
        if math.prod(launch.grid) > programs:
            used = replace(launch, grid=smaller(launch.grid, programs))
        found.append(Kernel(name, launch.kernel, stages, [case_of(used)]))
        if len(found) == 3:
            raise _Enough

    with open_session(replace(RunPolicy(), cc=cc).with_checks("none")) as session:
        limit_autotuning(1)
        session.before = before
        try:
            work()
        except _Enough:
            pass
        except Exception as error:
            print(f"  {name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
    return found
