"""Small kernels written in a test: a body of PTX, tensors as parameters, one launch."""

from __future__ import annotations

from typing import Any

import numpy as np

from xttir.analyses.events import Trace
from xttir.frontends.launch_description import DTYPES, LaunchDescription, PointerParam, TensorSpec
from xttir.frontends.ptx import parse_ptx
from xttir.interp.ptx import Result, run
from xttir.interp.ptx.trace import trace

_NAMES = {np.dtype(d.numpy): d.name for d in reversed(DTYPES.values()) if d.kind != "b"}

REGISTERS = """
    .reg .pred %p<16>;
    .reg .b16 %h<16>;
    .reg .b32 %r<64>;
    .reg .f32 %f<16>;
    .reg .b64 %rd<32>;
    .reg .f64 %d<8>;
    .reg .b64 %a<8>;
    mov.u32 %r0, %tid.x;
"""
"""%a0, %a1, .. are the tensors' addresses, %r0 the thread."""


class Kernel:
    """`body`: statements of the kernel. `tensors`: arrays by name, or a dtype and size for outputs
    ("u32", 64); arrays are known when traced unless named in `unknown`."""

    def __init__(
        self,
        body: str,
        tensors: dict[str, Any],
        threads: int | tuple[int, int, int] = 32,
        blocks: int = 1,
        cluster: int = 1,
        before: str = "",
        dynamic: int = 0,
        unknown: tuple[str, ...] = (),
    ):
        params = ",\n".join(f".param .u64 p{n}" for n in range(len(tensors)))
        loads = "\n".join(f"ld.param.u64 %a{n}, [p{n}];" for n in range(len(tensors)))
        self.text = (
            f".version 8.6\n.target sm_90a\n.address_size 64\n{before}\n"
            f".visible .entry kernel({params})\n{{\n{REGISTERS}\n{loads}\n{body}\n}}\n"
        )
        self.module = parse_ptx(self.text, "kernel.ptx")
        self.data: dict[str, np.ndarray] = {}
        specs = {}
        for name, value in tensors.items():
            if isinstance(value, tuple):
                kind, size = value
                spec = TensorSpec.of(name, kind, size, role="out")
                self.data[name] = np.zeros(size, DTYPES[kind].numpy)
            else:
                value = np.asarray(value)
                init = None if name in unknown else value
                spec = TensorSpec.of(name, _NAMES[value.dtype], value.size, role="inout", init=init)
                self.data[name] = value
            specs[name] = spec
        block = threads if isinstance(threads, tuple) else (threads, 1, 1)
        self.launch = LaunchDescription(
            entry="kernel",
            arch="sm_90a",
            grid=(blocks, 1, 1),
            block=block,
            cluster=(cluster, 1, 1),
            dynamic_smem=dynamic,
            tensors=specs,
            params=tuple(PointerParam(name) for name in tensors),
        )

    def run(self, schedule: Any = "first") -> Result:
        return run(self.module, self.launch, schedule, self.data)

    def values(self, name: str = "out", schedule: Any = "first") -> np.ndarray:
        """A tensor after a run without faults."""
        result = self.run(schedule)
        assert not result.faults, [f.message for f in result.faults]
        return result.tensors[name]

    def trace(self) -> Trace:
        return trace(self.module, self.launch)

    def everywhere(self, name: str = "out") -> list[np.ndarray]:
        """A tensor after runs along several schedules."""
        names = ["first", "adversarial", *(f"random:{n}" for n in range(5))]
        return [self.values(name, schedule) for schedule in names]


def address(register: str, index: str = "%r0", size: int = 4, base: str = "%a0") -> str:
    """Statements that put base + size * index into a 64-bit register."""
    return f"mul.wide.u32 {register}, {index}, {size}; add.s64 {register}, {register}, {base};"


def kinds(found: Result | Trace) -> list[str]:
    """The kinds of the faults, sorted."""
    return sorted(str(f.kind) for f in found.faults)


def events(found: Trace, kind: type) -> list[Any]:
    return [e for e in found.events if isinstance(e, kind)]
