"""What is known of a launch when a module is traced: its grid, and scalars."""

from __future__ import annotations

from dataclasses import dataclass, field

from xttir.interp.launch import TensorArg

Number = int | float | bool


@dataclass(frozen=True)
class Launch:
    """`kernel`: name of the function. `grid`: programs along x, y, z; a program is a cluster of
    `ttg.num-ctas` blocks. `arguments`: numbers by index of the parameter; others are unknown.
    `tensors`: integer tensors by index of the parameter; what the kernel loads from them is known,
    if it does not write them."""

    kernel: str
    grid: tuple[int, int, int] = (1, 1, 1)
    arguments: dict[int, Number] = field(default_factory=dict)
    tensors: dict[int, TensorArg] = field(default_factory=dict)

    @property
    def programs(self) -> int:
        x, y, z = self.grid
        return x * y * z
