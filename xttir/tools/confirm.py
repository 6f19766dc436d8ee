"""Whether a witness schedule shows its fault when the kernel runs along it.

It does when the run meets a fault, gets stuck, or leaves other values than the schedule that does
everything in order. A race that changes no value on this data is no less a race: what is not
confirmed keeps its verdict.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp

from xttir.diagnostics import InputError, Unsupported
from xttir.frontends.launch_description import LaunchDescription, materialise

MAX_BYTES = 1 << 28
"""Tensors of a launch that is run only to confirm."""


class Confirmation:
    """Runs of one launch. `shows` asks about one witness."""

    def __init__(self, module: ModuleOp, launch: LaunchDescription):
        self._module = module
        self._launch = launch
        self._data: Any = None
        self._plain: Any = None

    def shows(self, witness: dict[str, Any]) -> bool:
        """Whether the run along the schedule `witness` goes wrong; False when it cannot be run."""
        from xttir.interp.ptx import run

        if sum(spec.size for spec in self._launch.tensors.values()) > MAX_BYTES:
            return False
        try:
            if self._data is None:
                self._data = materialise(self._launch)
            result = run(self._module, self._launch, witness, self._data)
            if result.faults or result.blocked:
                return True
            if self._plain is None:
                self._plain = run(self._module, self._launch, "first", self._data)
        except (InputError, Unsupported):
            return False
        return any(
            result.tensors[name].tobytes() != data.tobytes()
            for name, data in self._plain.tensors.items()
        )
