"""Kernels that an autotuner runs again and again on the same memory.

Tuning runs every configuration on the user's own tensors. A kernel that reads a tensor and writes
it (accumulates, updates in place) then does so many times, unless the tuner is told to reset or to
restore the tensor. It is found by what it does: such a tensor differs after two configurations.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from xttir.diagnostics import Fault, Kind
from xttir.interp.effects import accessed_arguments
from xttir.interp.launch import Argument, DescriptorArg, Launch, TensorArg
from xttir.interp.memory import Region


@dataclass
class Repeats:
    """Watches the launches of one tuning after the other."""

    _kernel: str = ""
    _seen: dict[str, tuple[int, str]] = field(default_factory=dict)
    _told: set[tuple[str, str]] = field(default_factory=set)

    def after(self, launch: Launch) -> list[Fault]:
        """Faults that show once `launch` has run. Costs nothing outside of tunings."""
        if launch.tuning is None:
            self._kernel = ""
            return []
        if launch.kernel != self._kernel:
            self._kernel, self._seen = launch.kernel, {}
        faults = []
        for tensor in _updated(launch):
            now = _checksum(tensor)
            before = self._seen.get(tensor.name)
            self._seen[tensor.name] = now, launch.config
            if before is None or before[0] == now or (launch.kernel, tensor.name) in self._told:
                continue
            self._told.add((launch.kernel, tensor.name))
            faults.append(_fault(launch, tensor, before[1]))
        return faults


def _updated(launch: Launch) -> list[TensorArg]:
    """Tensors that the kernel reads and writes, and that the tuner does not put back."""
    read, written = (
        [t for n in positions if (t := _tensor(launch.arguments[n])) is not None]
        for positions in accessed_arguments(launch.module, launch.kernel)
    )
    kept = [t for t in read + written if t.name in (launch.tuning or ())]
    return [
        tensor
        for tensor in written
        if any(_overlap(tensor, other) for other in read)
        and not any(_overlap(tensor, other) for other in kept)
    ]


def _tensor(argument: Argument) -> TensorArg | None:
    if isinstance(argument, DescriptorArg):
        return argument.tensor
    return argument if isinstance(argument, TensorArg) else None


def _extent(tensor: TensorArg) -> tuple[int, int]:
    """The bytes of its storage that a tensor spans."""
    region = Region(tensor)
    return region.base + region.low, region.base + region.high


def _overlap(a: TensorArg, b: TensorArg) -> bool:
    (low, high), (low2, high2) = _extent(a), _extent(b)
    return a.storage is b.storage and low < high2 and low2 < high


def _checksum(tensor: TensorArg) -> int:
    low, high = _extent(tensor)
    return zlib.crc32(tensor.storage.bytes[low:high].data)


def _fault(launch: Launch, tensor: TensorArg, before: str) -> Fault:
    return Fault(
        Kind.MISUSE,
        f"autotuning runs `{launch.kernel}` many times, each run changes `{tensor.name}` again",
        kernel=launch.kernel,
        locations=(launch.site,) if launch.site is not None else (),
        notes=(
            f"`{tensor.name}` is read and written by the kernel",
            f"its values after ({before}) and after ({launch.config}) differ",
        ),
        hint=f'give triton.autotune reset_to_zero=["{tensor.name}"] or '
        f'restore_value=["{tensor.name}"]',
        witness={"argument": tensor.name, "configurations": [before, launch.config]},
        launch=launch.index,
    )
