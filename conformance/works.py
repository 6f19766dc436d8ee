"""What launches kernels in conformance runs: the cases of an operation, a tutorial."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def operation(make: Callable[[], Iterator[Any]]) -> Callable[[], None]:
    """Runs the cases of an operation, without their references."""

    def work() -> None:
        import torch

        from conformance import compare

        torch.manual_seed(0)
        for case in make():
            try:
                compare.exercise(case)
            except Exception as error:
                print(f"  {case.name}: {type(error).__name__}: {str(error)[:200]}", flush=True)

    return work


def tutorial(folder: Path, name: str) -> Callable[[], None]:
    def work() -> None:
        from conformance.tutorial_driver import drive

        path = next(iter(folder.glob(f"{name[-2:]}-*.py")))
        with open(os.devnull, "w") as sink, contextlib.redirect_stdout(sink):
            drive(str(path))

    return work
