"""What is measured, and what each measurement has to reach.

A case is a script of `kernels/` with the number of launches to compare: the cost of a case is the
CPU time with `launches` minus the CPU time with `base` launches of the same script, so that
imports, input data and the script's own check cancel out. The first launch's compilation counts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """`target`: how many times less CPU than ttsem; the same is asked against the interpreter.

    `tensors`: bytes of the script's tensors. `written`, `read_written`: elements of tensors that
    kernels only write, or both read and write; their shadows may take 4 and 12 bytes an element.
    `needs`: checks that must have been done, with nothing left out, for the case to count.
    """

    name: str
    script: str
    target: float | None
    tensors: int = 0
    written: int = 0
    read_written: int = 0
    launches: int = 1
    base: int = 0
    per_launch: float | None = None
    needs: tuple[str, ...] = ("bounds", "race", "init")

    @property
    def memory_limit(self) -> int:
        """Bytes: the tensors, their shadows, and 400 MB for Python, torch, Triton and xttir."""
        return self.tensors + 4 * self.written + 12 * self.read_written + 400_000_000


_ADD, _INPLACE = 16_800_000, 8_400_000
_SOFTMAX, _NORM = 1823 * 781, 1151 * 8192
_SQUARE, _HEADS = 1024 * 1024, 2 * 256 * 64

CASES: tuple[Case, ...] = (
    Case("add", "add", 100, tensors=12 * _ADD, written=_ADD),
    Case("inplace", "inplace", None, tensors=4 * _INPLACE, read_written=_INPLACE),
    Case("softmax", "softmax", 40, tensors=8 * _SOFTMAX, written=_SOFTMAX),
    Case("softmax-persistent", "softmax_persistent", 40, tensors=8 * _SOFTMAX, written=_SOFTMAX),
    Case("layer-norm", "layer_norm", 40, tensors=4 * _NORM, written=_NORM),
    Case("matmul", "matmul", 25, tensors=6 * _SQUARE, written=_SQUARE),
    Case("attention", "attention", 5, tensors=8 * _HEADS, written=_HEADS),
    Case("tiny-launch", "tiny", None, launches=201, base=1, per_launch=1.5e-3),
)

START_UP_LIMIT = 1.4
"""CPU time of an empty script under the tool, over that of importing torch and Triton."""


def find(names: str) -> tuple[Case, ...]:
    """The cases named in a comma-separated list; all of them for an empty one.

    Raises ValueError for a name that does not exist.
    """
    if not names:
        return CASES
    known = {case.name: case for case in CASES}
    wanted = [name.strip() for name in names.split(",")]
    missing = [name for name in wanted if name not in known]
    if missing:
        raise ValueError(f"no case named {', '.join(missing)}; known: {', '.join(known)}")
    return tuple(known[name] for name in wanted)
