"""Installing and uninstalling: everything comes back, and start-up stays cheap."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
import torch
import triton
import triton.testing
from triton.backends import backends

from tests.frontends.triton import kernels
from xttir.frontends.triton import install, state, uninstall
from xttir.frontends.triton.patches import Patches


def snapshot() -> dict[str, object]:
    """Everything that could be left behind, by name."""
    found: dict[str, object] = {}
    torches = (torch, torch.Tensor, torch.cuda, torch._C, torch.accelerator)
    tritons = (triton, triton.compiler.compiler, triton.testing, triton.runtime.jit.JITFunction)
    for owner in (*torches, *tritons):
        for name, value in vars(owner).items():
            if not name.startswith("__"):
                found[f"{getattr(owner, '__name__', owner)}.{name}"] = value
    found["backend"] = backends["nvidia"]
    found["active"] = triton.runtime.driver._active
    found["default"] = triton.runtime.driver._default
    return found


def test_uninstall_restores_everything() -> None:
    install(90, lambda launch: None)  # once, so that what is imported on the way is there
    uninstall()
    before = snapshot()
    install(90, lambda launch: None)
    x = torch.zeros(16, device="cuda")
    kernels.add[(1,)](x, x, 16, B=16)
    changed = [k for k, v in snapshot().items() if before.get(k) is not v]
    assert len(changed) > 100
    uninstall()
    after = snapshot()
    assert [k for k in before if before[k] is not after.get(k)] == []
    assert [k for k in after if k not in before] == []
    assert not kernels.add.device_caches
    assert not torch.cuda.is_available()
    with pytest.raises((AssertionError, RuntimeError)):
        torch.zeros(3, device="cuda")
    uninstall()  # again is nothing


def test_devices_change_between_installations() -> None:
    archs = []
    for cc in (80, 100, 90):
        install(cc, lambda launch: archs.append(launch.cc))
        try:
            x = torch.zeros(16, device="cuda")
            kernels.add[(1,)](x, x, 16, B=16)
        finally:
            uninstall()
    assert archs == [80, 100, 90]


def test_twice_is_an_error() -> None:
    install(90, lambda launch: None)
    try:
        with pytest.raises(RuntimeError, match="already"):
            install(90, lambda launch: None)
    finally:
        uninstall()


def test_tritons_interpreter_and_ours_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET"):
        install(90, lambda launch: None)
    assert state.installed() is None


def test_kernels_kept_beyond_the_end_say_so() -> None:
    install(90, lambda launch: None)
    x = torch.zeros(16, device="cuda")
    kernel = kernels.add[(1,)](x, x, 16, B=16)
    uninstall()
    with pytest.raises(RuntimeError, match="not installed"):
        kernel.run(1, 1, 1, 0, 0, None, None, None, None, x, x, 16, 16)


def test_patches_come_off_in_reverse() -> None:
    class Owner:
        a = 1

    patches = Patches()
    patches.set(Owner, "a", 2)
    patches.set(Owner, "a", 3)
    patches.set(Owner, "b", 4)
    mapping = {"x": 1}
    patches.set_item(mapping, "x", 2)
    patches.set_item(mapping, "y", 3)
    assert (Owner.a, Owner.b) == (3, 4)  # type: ignore[attr-defined]
    patches.undo()
    assert Owner.a == 1
    assert not hasattr(Owner, "b")
    assert mapping == {"x": 1}


SCRIPT = """
import time
t = time.process_time()
{first}
import torch, triton, triton.language
import torch.utils._device
print(time.process_time() - t)
"""


def cpu_seconds(first: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(first=first)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout)


def test_start_up_is_cheap() -> None:
    call = "from xttir.frontends.triton import install; install(90, lambda launch: None)"
    plain, installed = [], []
    for _ in range(8):  # The least of some runs: other processes only ever add.
        plain.append(cpu_seconds(""))
        installed.append(cpu_seconds(call))
        if min(installed) < 1.4 * min(plain):
            return
    raise AssertionError(f"{min(installed):.2f} s against {min(plain):.2f} s")


def test_importing_xttir_imports_neither() -> None:
    code = textwrap.dedent("""
        import sys
        import xttir, xttir.session, xttir.frontends.triton
        print([m for m in ("torch", "triton", "z3") if m in sys.modules])
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
