"""Kernels with tensor maps and matrix operands, written in a test: a body of PTX and its data.

`%a0, %a1, ..` are the addresses of the tensors, `%m0, ..` those of the tensor maps, `%r0` the
thread, `dyn` the dynamic shared memory, which begins at offset 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xttir.analyses.events import Trace
from xttir.frontends.launch_description import LaunchDescription, from_dict
from xttir.frontends.ptx import parse_ptx
from xttir.interp.ptx import Result, run
from xttir.interp.ptx.trace import trace

REGISTERS = """
    .reg .pred %p<16>;
    .reg .b16 %h<16>;
    .reg .b32 %r<400>;
    .reg .f32 %f<300>;
    .reg .b64 %rd<64>;
    .reg .b64 %a<8>;
    .reg .b64 %m<8>;
    .reg .b128 %q<4>;
"""

# Bytes of the first tensor into shared memory from offset 0, by all threads.
FILL = """
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 4;
FILL:
    setp.ge.u32 %p0, %r2, {size};
    @%p0 bra FILLED;
    cvt.u64.u32 %rd0, %r2;
    add.s64 %rd0, %rd0, %a0;
    ld.global.v4.u32 {{%r3, %r4, %r5, %r6}}, [%rd0];
    mov.u32 %r7, dyn;
    add.u32 %r7, %r7, %r2;
    st.shared.v4.u32 [%r7], {{%r3, %r4, %r5, %r6}};
    add.u32 %r2, %r2, {stride};
    bra FILL;
FILLED:
    fence.proxy.async;
    bar.sync 0;
"""

WAIT = """
W{n}:
    mbarrier.try_wait.parity.shared::cta.b64 %p15, [{bar}], {parity};
    @!%p15 bra W{n};
"""


def wait(bar: str, parity: int = 0, n: str = "0") -> str:
    """A loop that waits for a phase."""
    return WAIT.format(bar=bar, parity=parity, n=n)


_NAMES = {
    "float16": "f16",
    "float32": "f32",
    "bfloat16": "bf16",
    "float64": "f64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "int32": "i32",
    "uint64": "u64",
}


class AsyncKernel:
    """One launch. `tensors`: arrays, or (dtype name, shape) for outputs. `maps`: descriptions of
    tensor maps of the tensors (box, swizzle, ..)."""

    def __init__(
        self,
        body: str,
        tensors: dict[str, Any],
        maps: tuple[dict[str, Any], ...] = (),
        arch: str = "sm_90a",
        threads: int = 128,
        blocks: int = 1,
        cluster: int = 1,
        dynamic: int = 65536,
        known: tuple[str, ...] = (),
    ):
        names = [f"p{i}" for i in range(len(tensors) + len(maps))]
        params = [f".param .u64 {n}" for n in names[: len(tensors)]]
        params += [f".param .align 64 .b8 {n}[128]" for n in names[len(tensors) :]]
        loads = [f"ld.param.u64 %a{i}, [{n}];" for i, n in enumerate(names[: len(tensors)])]
        for i, name in enumerate(names[len(tensors) :]):
            loads.append(f"mov.b64 %m{i}, {name}; cvta.param.u64 %m{i}, %m{i};")
        text = (
            f".version 9.0\n.target {arch}\n.address_size 64\n"
            ".extern .shared .align 1024 .b8 dyn[];\n"
            f".visible .entry kernel({', '.join(params)})\n{{\n{REGISTERS}\n"
            + "\n".join(loads)
            + f"\nmov.u32 %r0, %tid.x;\n{body}\nret;\n}}\n"
        )
        self.module = parse_ptx(text, "kernel.ptx")
        self.data: dict[str, np.ndarray] = {}
        specs = {}
        for name, value in tensors.items():
            if isinstance(value, tuple):
                kind, shape = value
                specs[name] = {"dtype": kind, "shape": list(shape), "role": "out"}
            else:
                array = np.ascontiguousarray(value)
                kind = _NAMES[array.dtype.name]
                specs[name] = {"dtype": kind, "shape": list(array.shape), "role": "inout"}
                if name in known:
                    specs[name]["init"] = array.tolist()
                self.data[name] = array.reshape(-1)
        self.launch: LaunchDescription = from_dict(
            {
                "entry": "kernel",
                "arch": arch,
                "grid": [blocks, 1, 1],
                "block": [threads, 1, 1],
                "cluster": [cluster, 1, 1],
                "dynamic_smem": dynamic,
                "tensors": specs,
                "params": [*({"pointer": n} for n in tensors), *maps],
            }
        )
        for name, spec in self.launch.tensors.items():
            if name not in self.data:
                self.data[name] = np.zeros(int(np.prod(spec.shape)), spec.dtype.numpy)

    def run(self, schedule: str = "first") -> Result:
        return run(self.module, self.launch, schedule, self.data)

    def values(self, name: str = "out", schedule: str = "first") -> np.ndarray:
        """A tensor after a run without faults."""
        result = self.run(schedule)
        assert not result.faults, [f.message for f in result.faults]
        spec = self.launch.tensors[name]
        return result.tensors[name].view(spec.dtype.numpy).reshape(spec.shape)

    def trace(self) -> Trace:
        return trace(self.module, self.launch)


def faults(found: Result | Trace) -> list[str]:
    return sorted({str(f.kind) for f in found.faults})


def events(found: Trace, kind: type) -> list[Any]:
    return [e for e in found.events if isinstance(e, kind)]
