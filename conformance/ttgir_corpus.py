"""Do TTIR and TTGIR of real kernels leave the same bytes in memory?

python -m conformance.ttgir_corpus [CORPUS] [--only WORDS] [--batch N] [--repeat N]

Every kernel of a corpus (folders `KERNEL/CC` that hold `ttir.loc.mlir` and `ttgir.loc.mlir`, by
default `triton` in `$XTTIR_SHARED/corpus`) runs as TTIR and as TTGIR on the same random inputs,
made from the parameters of its `tt.func`, on a small grid. Memory must agree bit for bit, and no
fault may appear that the other has not.
"""

from __future__ import annotations

import argparse
import os
import re
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, ModuleOp, StringAttr
from xdsl.ir import Attribute

from xttir.diagnostics import Fault, XttirError
from xttir.dialects import tt
from xttir.frontends.mlir import parse_module
from xttir.interp.executor import run_launch
from xttir.interp.launch import Launch, ScalarArg, Storage, TensorArg
from xttir.interp.types import is_float, numpy_dtype
from xttir.policy import RunPolicy

GRID = (3, 2, 2)
"""Programs along each axis that the kernel looks at."""
ELEMENTS = 1 << 19
"""Elements of every tensor argument: enough for the rows that small strides reach."""

_STRIDE = re.compile(r"stride|^s_")
STRIDE = 1024


@dataclass
class Result:
    """What a module left behind."""

    memory: list[np.ndarray]
    faults: list[Fault]
    seconds: float


@dataclass
class Verdict:
    """`kind`: "equal", "values", "faults", or the name of what stopped a run."""

    name: str
    kind: str
    why: str = ""
    faults: list[str] = field(default_factory=list)
    ratio: float = 0.0


def kernel_of(module: ModuleOp) -> tt.FuncOp:
    """The public function."""
    functions = [op for op in module.body.block.ops if isinstance(op, tt.FuncOp)]
    for op in functions:
        if op.sym_visibility == StringAttr("public"):
            return op
    return functions[0]


def grid_of(kernel: tt.FuncOp) -> tuple[int, int, int]:
    """A small grid along the axes that the kernel uses."""
    used = {op.axis.value.data for op in kernel.walk() if isinstance(op, tt.GetProgramIdOp)}
    x, y, z = (extent if axis in used else 1 for axis, extent in enumerate(GRID))
    return x, y, z


def names_of(text: str, kernel: str) -> list[str]:
    """Names of the kernel's parameters as the text spells them."""
    match = re.search(rf"tt\.func public @{re.escape(kernel)}\((.*?)\) attributes", text, re.S)
    return re.findall(r"%(\w+):", match.group(1)) if match else []


def arguments(kernel: tt.FuncOp, names: list[str], seed: int) -> list[TensorArg | ScalarArg]:
    """Random arguments for the parameters of `kernel`."""
    rng = np.random.default_rng(seed)
    found: list[TensorArg | ScalarArg] = []
    address = 1 << 32
    for n, (parameter, name) in enumerate(zip(kernel.body.blocks[0].args, names, strict=True)):
        ty = parameter.type
        if isinstance(ty, tt.PointerType):
            values = _values(rng, ty.pointee_type)
            storage = Storage(values.view(np.uint8), address)
            address += values.nbytes + (1 << 20)
            found.append(TensorArg(name, storage, 0, values.shape, (1,), values.dtype))
        else:
            found.append(ScalarArg(name, _number(ty, name, _divisible(kernel, n))))
    return found


def _values(rng: np.random.Generator, ty: Attribute) -> np.ndarray:
    dtype = numpy_dtype(ty)
    if is_float(dtype):
        return (rng.standard_normal(ELEMENTS) * 0.5).astype(np.float32).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, ELEMENTS).astype(bool)
    return rng.integers(0, 100, ELEMENTS).astype(dtype)


def _divisible(kernel: tt.FuncOp, n: int) -> bool:
    attributes = kernel.arg_attrs
    return attributes is not None and "tt.divisibility" in attributes.data[n].data


def _number(ty: Attribute, name: str, divisible: bool) -> int | float:
    if isinstance(ty, AnyFloat):
        return 1e-5 if name == "eps" else 0.125
    assert isinstance(ty, IntegerType)
    if _STRIDE.search(name):
        return STRIDE if divisible else STRIDE + 3
    if name == "ignore_index":
        return -100
    return 192 if divisible else 203


def run(text: str, path: str, policy: RunPolicy, cc: int, repeat: int) -> Result:
    """Run the kernel of a module's text on its inputs, `repeat` times; the fastest run counts."""
    module = parse_module(text, path)
    kernel = kernel_of(module)
    name = kernel.sym_name.data
    seconds: list[float] = []
    while True:
        args = arguments(kernel, names_of(text, name), zlib.crc32(name.encode()))
        launch = Launch(module, name, grid_of(kernel), tuple(args), cc=cc)
        start = time.process_time()
        result = run_launch(launch, policy)
        seconds.append(time.process_time() - start)
        if len(seconds) >= repeat:
            memory = [a.storage.bytes for a in args if isinstance(a, TensorArg)]
            return Result(memory, result.faults, min(seconds))


def judge(folder: Path, policy: RunPolicy, repeat: int) -> Verdict:
    """Run both modules of a kernel and compare."""
    name = f"{folder.parent.name} cc{folder.name}"
    results: list[Result] = []
    for stage in ("ttir", "ttgir"):
        path = folder / f"{stage}.loc.mlir"
        try:
            results.append(run(path.read_text(), str(path), policy, int(folder.name), repeat))
        except XttirError as error:
            return Verdict(name, type(error).__name__, f"{stage}: {error}")
    before, after = results
    ratio = after.seconds / before.seconds
    seen = {(f.kind, f.message) for f in before.faults}
    new = [f for f in after.faults if (f.kind, f.message) not in seen]
    faults = [f"{f.kind} {f.message}" for f in before.faults]
    if new:
        why = "; ".join(f"{f.kind}: {f.message} at {f.locations[:1]}" for f in new[:3])
        return Verdict(name, "faults", why, faults, ratio)
    for n, (a, b) in enumerate(zip(before.memory, after.memory, strict=True)):
        if not np.array_equal(a, b):
            return Verdict(name, "values", f"tensor {n}: {(a != b).sum()} bytes", faults, ratio)
    return Verdict(name, "equal", "", faults, ratio)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    shared = Path(os.environ.get("XTTIR_SHARED", "../shared"))
    parser.add_argument("corpus", nargs="?", type=Path, default=shared / "corpus" / "triton")
    parser.add_argument("--only", default="", help="kernels whose name holds this")
    parser.add_argument("--batch", type=int, default=0, help="programs in a batch (0: as usual)")
    parser.add_argument("--repeat", type=int, default=1, help="runs of which the fastest counts")
    parser.add_argument("--faults", action="store_true", help="show faults that both have")
    options = parser.parse_args()
    policy = replace(RunPolicy(), batch=options.batch)
    tally: Counter[str] = Counter()
    ratios: list[float] = []
    for folder in sorted(options.corpus.glob("*/*/")):
        if options.only not in str(folder) or not (folder / "ttgir.loc.mlir").exists():
            continue
        verdict = judge(folder, policy, options.repeat)
        tally[verdict.kind] += 1
        if verdict.ratio:
            ratios.append(verdict.ratio)
        print(f"{verdict.kind:12} {verdict.ratio:5.2f} {verdict.name} {verdict.why}", flush=True)
        if options.faults:
            for text in verdict.faults:
                print(f"{'':19}both: {text}")
    print(", ".join(f"{count} {kind}" for kind, count in tally.most_common()))
    if ratios:
        print(f"CPU time TTGIR / TTIR: median {np.median(ratios):.2f}, most {max(ratios):.2f}")
    return 0 if set(tally) <= {"equal"} else 1


if __name__ == "__main__":
    raise SystemExit(main())
