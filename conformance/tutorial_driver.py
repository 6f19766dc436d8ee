"""Run one of Triton's tutorials with its benchmarks left out, then check what it computed.

    xttir sanitize conformance/tutorial_driver.py TUTORIAL.py

The tutorial runs as `__main__` where its own code checks itself; those that check themselves only
under pytest, or at sizes meant for a GPU, are imported and called here at small sizes. What is
printed at the end, after `CHECK`, is one line a check: its name, and ok or what is wrong.
"""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import sys
import types
from collections.abc import Callable
from typing import Any

CHECKS: dict[str, Callable[[str], None]] = {}


def check(prefix: str) -> Callable:
    def register(function: Callable[[str], None]) -> Callable[[str], None]:
        CHECKS[prefix] = function
        return function

    return register


def say(name: str, good: bool, what: str = "values differ") -> None:
    print(f"CHECK {name}: {'ok' if good else what}", flush=True)


def attempt(name: str, run: Callable[[], Any]) -> None:
    try:
        run()
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        say(name, False, f"{type(error).__name__}: {first}")
    else:
        say(name, True)


def leave_out_benchmarks() -> None:
    """`perf_report` gives an object whose `run` does nothing; `do_bench` calls once."""
    import triton

    class Nothing:
        def run(self, **_: Any) -> None:
            pass

    triton.testing.perf_report = lambda *_: lambda function: Nothing()

    def once(function: Callable, *_: Any, quantiles: Any = None, **__: Any) -> Any:
        function()
        return [1.0] * len(quantiles) if quantiles else 1.0

    triton.testing.do_bench = once
    triton.testing.do_bench_cudagraph = once


def replace_cublas() -> None:
    """A stand-in for the vendor's library, which is not there: products with torch, in float32."""
    from triton._C.libtriton import nvidia

    class CublasLt:
        def __init__(self, workspace: Any) -> None:
            pass

        def matmul(self, a: Any, b: Any, out: Any) -> None:
            out.copy_(a.float() @ b.float().T)

    nvidia.cublas.CublasLt = CublasLt


def as_script(path: str) -> dict[str, Any]:
    return runpy.run_path(path, run_name="__main__")


def as_module(path: str) -> dict[str, Any]:
    return runpy.run_path(path, run_name="tutorial")


@check("01")
def _(path: str) -> None:
    import torch

    names = as_script(path)
    say("sum", torch.equal(names["output_torch"], names["output_triton"]))


@check("02")
def _(path: str) -> None:
    import torch

    names = as_script(path)
    say("softmax", torch.allclose(names["y_triton"], names["y_torch"]))


@check("03")
def _(path: str) -> None:
    import torch

    names = as_script(path)
    close = torch.allclose(names["triton_output"], names["torch_output"], atol=0.125, rtol=0)
    say("matmul of the script (fp8 last)", close)
    for shape in ((128, 96, 64), (77, 130, 45)):
        a = torch.randn(shape[0], shape[2], device="cuda", dtype=torch.float16)
        b = torch.randn(shape[2], shape[1], device="cuda", dtype=torch.float16)
        for activation in ("", "leaky_relu"):
            ref = a.float() @ b.float()
            ref = torch.where(ref >= 0, ref, 0.01 * ref) if activation else ref
            got = names["matmul"](a, b, activation).float()
            say(f"{shape} {activation}", torch.allclose(got, ref, atol=2e-2, rtol=1e-3))


@check("04")
def _(path: str) -> None:
    import torch

    # Only the table is wanted of `tabulate`.
    if not _importable("tabulate"):
        sys.modules["tabulate"] = types.SimpleNamespace(tabulate=lambda rows, **_: str(rows))  # type: ignore[assignment]
    names = as_script(path)
    x, keep, p = names["x"], names["x_keep"], names["p"]
    say("same seed", torch.equal(names["output"], names["output2"]))
    say("other seed", not torch.equal(names["output"], names["output3"]))
    got = names["dropout"](x, x_keep=keep[: len(x)], p=p)
    say("given mask", torch.allclose(got, x * keep / (1 - p)))
    kept = names["output"] != 0
    say("scaled", torch.allclose(names["output"][kept], x[kept] / 0.5))


def _importable(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


@check("05")
def _(path: str) -> None:
    import torch

    exact = torch.nn.functional.layer_norm

    def layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
        """On a CPU torch sums the gradients of half precision in half precision: off by 0.08."""
        return exact(x.float(), shape, weight.float(), bias.float(), eps).to(x.dtype)

    torch.nn.functional.layer_norm = layer_norm
    names = as_script(path)
    say("1151x8192, forward and backward", True)
    for rows, columns in ((33, 77), (64, 1000)):
        attempt(
            f"{rows}x{columns}",
            lambda r=rows, c=columns: names["test_layer_norm"](r, c, torch.float16),
        )


@check("06")
def _(path: str) -> None:
    # Under pytest the tutorial itself keeps to one configuration.
    os.environ.setdefault("PYTEST_VERSION", "9")
    test = as_module(path)["test_op"]
    shapes = [(1, 2, 128, 64), (1, 1, 256, 128)]
    for batch, heads, length, dim in shapes:
        for causal in (False, True):
            for mode, provider in (("fwd", "triton-fp8"), ("bwd", "triton-fp16")):
                attempt(
                    f"{batch}x{heads}x{length}x{dim} causal={causal} {mode} {provider}",
                    lambda z=batch, h=heads, n=length, d=dim, c=causal, m=mode, p=provider: test(
                        z, h, n, d, c, False, m, p
                    ),
                )


@check("07")
def _(path: str) -> None:
    import torch

    names = as_script(path)
    say("asin", torch.allclose(names["output_torch"], names["output_triton"], rtol=1e-6, atol=1e-6))


@check("08")
def _(path: str) -> None:
    as_script(path)
    say("grouped products", True)


@check("09")
def _(path: str) -> None:
    import torch

    replace_cublas()
    validate = as_module(path)["validate"]
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.float8_e4m3fn):
        for shape in ((32, 32, 32), (256, 512, 128), (208, 144, 96)):
            sink = io.StringIO()

            def run(d=dtype, s=shape, out=sink) -> None:
                with contextlib.redirect_stdout(out):
                    validate(*s, d)

            attempt(f"{shape} {dtype} runs", run)
            for line in sink.getvalue().replace("\r", "\n").splitlines():
                name, mark, icon = line.strip().rpartition(": ")
                if mark and icon in ("✅", "❌"):
                    say(f"{shape} {dtype} {name}", icon == "✅")


def drive(path: str) -> None:
    from conformance.worker import limit_autotuning

    leave_out_benchmarks()
    limit_autotuning(int(os.environ.get("CONFORMANCE_CONFIGS", "2")))
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    CHECKS[os.path.basename(path)[:2]](path)


if __name__ == "__main__":
    drive(sys.argv[1])
