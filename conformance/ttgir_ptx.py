"""The PTX of a module after barrier insertion: Triton's own lowering from that point on.

The passes of the last stage before LLVM that have run already are left out; everything else of the
stage, and PTX, are made as in a compilation. So a module that somebody changed after barrier
insertion can be looked at as PTX, too. Runs in a fork, since a lowering may crash.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

from conformance import forked

FIRST = "add_to_llvmir"
"""The binding of the first pass that still has to run."""


@dataclass(frozen=True)
class Lowered:
    """`ptx`, and what its launch needs: threads of a block, bytes of shared memory, blocks of a
    cluster, scratch memory in global memory."""

    ptx: str
    warps: int
    shared: int
    ctas: int
    scratch: int


class _Skipping:
    """Stands in for a module of bindings: adds no pass before `FIRST`."""

    def __init__(self, real: Any, state: dict[str, bool]):
        self._real, self._state = real, state

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        if type(value).__name__ == "module":
            return _Skipping(value, self._state)
        if not name.startswith("add_"):
            return value
        if name == FIRST:
            self._state["reached"] = True
        return value if self._state.get("reached") else lambda *_: None


def lower(text: str, cc: int, seconds: float = 60) -> Lowered | str:
    """The PTX of the module, or why there is none."""
    found, ended = forked.ask(_lower, seconds, text, cc)
    return found if isinstance(found, Lowered) else (found or ended)


def _lower(text: str, cc: int) -> Lowered | str:
    import triton.backends.nvidia.compiler as backend
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget

    from xttir.refine.capture import ModuleSource

    warnings.simplefilter("ignore")
    source = ModuleSource(text, "module.mlir", "ttgir", True)
    compiler = backend.CUDABackend(GPUTarget("cuda", cc, 32))
    ctas = re.search(r'"ttg\.num-ctas" = (\d+)', text)
    given = {**source.parse_options(), "num_ctas": int(ctas[1]) if ctas else 1}
    options = compiler.parse_options(given)
    context = ir.context()
    ir.load_dialects(context)
    compiler.load_dialects(context)
    module = source.make_ir(None, options, None, None, context)
    state: dict[str, bool] = {}
    saved = backend.passes, backend.nvidia
    metadata: dict[str, Any] = {"target": compiler.target, **options.__dict__}
    capability = 10 * (cc // 10) + cc % 10
    try:
        backend.passes = _Skipping(saved[0], state)
        backend.nvidia = _Skipping(saved[1], state)
        llvm = compiler.make_llir(module, metadata, options, capability)
        backend.passes, backend.nvidia = saved
        ptx = compiler.make_ptx(llvm, metadata, options, capability)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        backend.passes, backend.nvidia = saved
    return Lowered(
        ptx,
        metadata["num_warps"],
        metadata["shared"],
        metadata.get("num_ctas", 1),
        metadata["global_scratch_size"],
    )
