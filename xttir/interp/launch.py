"""What a launch is, and what comes back from running one. Frontends build it, the executor runs it.

A launch is complete: module, kernel name, grid and one argument for every parameter of the
kernel's `tt.func`, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from xttir.diagnostics import Fault, Location
from xttir.policy import CheckCounts

if TYPE_CHECKING:
    from xttir.interp.access import Access
    from xttir.interp.machine import Machine


@dataclass(eq=False)
class Storage:
    """One allocation: what pointers are checked against and what shadows are kept for.

    `bytes`: uint8[nbytes], a view of the memory the host sees (never a copy). `address`: the
    address of byte 0 as kernels see it. `valid`: bool[nbytes] or None; None means every byte has
    been written. The executor updates it; whoever allocated the memory creates it (see
    `torch.empty`). `created` says where the host allocated it, for reports. `poison`: uint8[k], the
    pattern that uninitialised elements were filled with (repeating from byte 0), or None; bytes
    that no longer hold it were written by the host in a way nobody saw, whatever `valid` says.
    """

    bytes: np.ndarray
    address: int
    valid: np.ndarray | None = None
    created: str = ""
    live: bool = True
    poison: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class TensorArg:
    """A pointer argument that came from a tensor.

    `offset`: byte offset of element 0 in the storage. `shape`, `strides` in elements. `dtype`: the
    numpy (or ml_dtypes) dtype of the tensor's elements. Bounds are those of the elements this view
    owns, not of the storage.
    """

    name: str
    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    device: str = "cuda"


@dataclass(frozen=True)
class PixelBox:
    """The bounding box of an im2col descriptor: corners and steps, one number a spatial axis."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class DescriptorArg:
    """A host tensor descriptor. It fills the parameters Triton expands it to.

    `shape`, `strides` (elements), `block_shape` as in `triton.tools.tensor_descriptor`.
    `padding`: "zero" or "nan".
    """

    name: str
    tensor: TensorArg
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block_shape: tuple[int, ...]
    padding: str = "zero"
    round_f32_to_tf32: bool = False
    pixels: PixelBox | None = None


@dataclass(frozen=True, eq=False)
class ScalarArg:
    """An integer, float or null pointer, with the name of the parameter."""

    name: str
    value: int | float


@dataclass(frozen=True, eq=False)
class ValueArg:
    """An argument that no device launch could pass: a tensor by value, or pointers to elements.

    `value`: the elements, of the parameter's shape; with `tensor`, their byte offsets from the
    tensor's element 0.
    """

    name: str
    value: np.ndarray
    tensor: TensorArg | None = None


Argument = TensorArg | DescriptorArg | ScalarArg | ValueArg

Observer = Callable[["Machine", Operation, str, "Access"], None]
"""(machine, op, "load" | "store" | "atomic", access). The access's pieces say which bytes of which
region, its `bad` lanes what was out of bounds; `machine.pids` are the programs."""


@dataclass(frozen=True, eq=False)
class Launch:
    """One kernel launch. `arguments` matches the kernel's `tt.func` parameters one to one.

    `memory`: every live storage a pointer may legitimately reach besides the arguments' own
    (tables of pointers, `int_to_ptr`); a callable so that it costs nothing when not needed.
    `plan_key`: equal keys mean the same compiled kernel.
    """

    module: ModuleOp
    kernel: str
    grid: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    num_warps: int = 4
    cc: int = 90
    index: int = 1
    constants: dict[str, Any] = field(default_factory=dict)
    memory: Any = None
    plan_key: Any = None
    site: Location | None = None
    """The user's line that made the launch."""
    config: str = ""
    """The autotuner's configuration being run, or ""."""
    tuning: tuple[str, ...] | None = None
    """While configurations are tried: the arguments that the tuner resets or restores."""
    compiled: Any = None
    """What the frontend compiled the module from, for who wants the device code."""
    observer: Observer | None = None
    """Told of every access to global memory as it is made, bounds resolved, before it is done."""
    programs: tuple[int, ...] | None = None
    """Linear ids of the program instances to run, where not all of the grid's are wanted."""


@dataclass
class LaunchResult:
    """What a launch did: faults, check counts, programs run, seconds, printed text."""

    faults: list[Fault] = field(default_factory=list)
    counts: CheckCounts = field(default_factory=CheckCounts)
    programs: int = 0
    seconds: float = 0.0
    completed: bool = True
    results: list[np.ndarray] = field(default_factory=list)
    """What a function returned, [programs, *shape] each (pointers as addresses); kernels return
    nothing."""
    trips: int = 0
    """Iterations of counted loops, each counted once for all programs of a batch."""
