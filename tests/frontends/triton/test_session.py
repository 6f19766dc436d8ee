"""Sessions: what they collect, and that faults do not stop the user's code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton

import xttir
from tests.frontends.triton import kernels
from xttir import session as session_module
from xttir.diagnostics import Fault, Kind, Location, Unsupported
from xttir.frontends.triton import state
from xttir.interp.launch import Launch, LaunchResult
from xttir.policy import CheckCounts, RunPolicy


def launch(n: int = 16, block: int = 16) -> None:
    x = torch.zeros(n, device="cuda")
    kernels.add[(1,)](x, x, n, B=block)


def fake(
    monkeypatch: pytest.MonkeyPatch, *faults: Fault, raises: BaseException | None = None
) -> list[Any]:
    """Run launches without the executor."""
    calls: list[Any] = []

    def run(launch: Launch, policy: RunPolicy) -> LaunchResult:
        calls.append((launch, policy))
        if raises is not None:
            raise raises
        counts = CheckCounts({"bounds": 2}, {"something": 1})
        return LaunchResult(list(faults), counts, programs=4)

    monkeypatch.setattr(session_module, "_run_launch", run)
    return calls


def test_what_a_session_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(Kind.RACE, "they race", kernel="add", locations=(Location("k.py", 3),))
    calls = fake(monkeypatch, fault)
    with xttir.sanitize(checks="bounds,race", cc=80, max_steps=7) as s:
        launch()
        launch()
    assert [policy.cc for _, policy in calls] == [80, 80]
    assert calls[0][1].checks == {"bounds", "race"}
    assert calls[0][1].max_steps == 7
    assert s.faults == [fault, fault]
    assert s.programs == 8
    assert s.counts.done == {"bounds": 4}
    assert s.counts.not_done == {"something": 2}
    first, second = s.launches
    assert (first.index, second.index) == (1, 2)
    assert first.kernel == "add"
    assert first.grid == (1, 1, 1)
    assert first.constants == {"B": 16}
    assert first.faults == [fault]
    assert first.completed
    assert first.site is not None
    assert first.site.file == __file__
    assert s.seconds == first.seconds + second.seconds > 0


def test_faults_of_the_executor() -> None:
    with xttir.sanitize() as s:
        x = torch.zeros(10, device="cuda")
        y = torch.empty(16, device="cuda")
        kernels.add[(1,)](x, y, 16, B=16)
        kernels.add[(1,)](y, y, 16, B=16)
        launch()
    assert {fault.kind for fault in s.faults} == {Kind.OUT_OF_BOUNDS}
    assert s.faults[0].locations[0].file == kernels.__file__
    assert len(s.launches) == 3
    assert [bool(record.faults) for record in s.launches] == [True, False, False]


def test_uninitialised_memory_is_found_and_where_it_was_made() -> None:
    with xttir.sanitize() as s:
        x, o = torch.empty(16, device="cuda"), torch.empty(16, device="cuda")
        kernels.add[(1,)](x, o, 16, B=16)
        x.data.fill_(1)
        kernels.add[(1,)](x, o, 16, B=16)
    (fault,) = s.faults
    assert fault.kind is Kind.UNINITIALIZED
    assert fault.launch == 1
    assert any(place.file == __file__ for place in fault.locations)


def test_a_fault_names_the_tuning_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, Fault(Kind.RACE, "they race"))
    kernel = triton.autotune(
        configs=[triton.Config({"B": 16}), triton.Config({"B": 32})],
        key=["n"],
    )(kernels.add)
    with xttir.sanitize() as s:
        x = torch.zeros(16, device="cuda")
        kernel[(1,)](x, x, 16)
    assert len(s.faults) == 3
    assert any("B=32" in note for note in s.faults[1].notes)
    assert s.launches[1].config.startswith("B=32")


def tuned(**options: Any) -> Any:
    configs = [triton.Config({"B": block}) for block in (16, 32)]
    return triton.autotune(configs=configs, key=["n"], **options)(kernels.add)


def test_tuning_a_kernel_that_updates_its_input() -> None:
    with xttir.sanitize() as s:
        x = torch.zeros(16, device="cuda")
        tuned()[(1,)](x, x, 16)
    assert x[0] == 3.0
    (fault,) = s.faults
    assert fault.kind is Kind.MISUSE
    assert fault.launch == 2
    assert "many times" in fault.message
    assert "`o`" in fault.message
    assert fault.locations[0].file == __file__
    assert "B=16" in fault.notes[1]
    assert "B=32" in fault.notes[1]


@pytest.mark.parametrize("options", [{"restore_value": ["x"]}, {"reset_to_zero": ["o"]}])
def test_tuning_that_puts_back_is_fine(options: dict[str, Any]) -> None:
    with xttir.sanitize() as s:
        x = torch.zeros(16, device="cuda")
        tuned(**options)[(1,)](x, x, 16)
    assert s.faults == []
    assert x[0] == 1.0


def test_tuning_a_kernel_that_only_writes_is_fine() -> None:
    with xttir.sanitize() as s:
        x, o = torch.ones(16, device="cuda"), torch.zeros(16, device="cuda")
        tuned()[(1,)](x, o, 16)
    assert s.faults == []


def test_host_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch)
    with xttir.sanitize() as s:
        with pytest.raises(ValueError, match="cpu tensor"):
            kernels.add[(1,)](torch.ones(4), torch.ones(4, device="cuda"), 4, B=4)
        launch()
    assert [fault.kind for fault in s.faults] == [Kind.MISUSE]
    assert len(s.launches) == 1
    with xttir.sanitize(checks="-host") as s, pytest.raises(ValueError, match="cpu tensor"):
        kernels.add[(1,)](torch.ones(4), torch.ones(4, device="cuda"), 4, B=4)
    assert s.faults == []


def test_unsupported_is_kept_and_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    error = Unsupported("operation x.y")
    fake(monkeypatch, raises=error)
    with xttir.sanitize() as s, pytest.raises(Unsupported):
        launch()
    assert s.unsupported == [error]
    assert not s.launches[0].completed


def test_an_interrupted_launch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, raises=KeyboardInterrupt())
    with xttir.sanitize() as s, pytest.raises(KeyboardInterrupt):
        launch()
    assert list(s.counts.not_done) == ["launches interrupted: what they write is incomplete"]


def test_sessions_do_not_nest() -> None:
    with xttir.sanitize() as s:
        with pytest.raises(RuntimeError, match="do not nest"):
            xttir.sanitize().__enter__()
        with pytest.raises(RuntimeError, match="do not nest"):
            s.__enter__()
        launch()
    assert len(s.launches) == 1
    assert state.installed() is None


def test_a_session_ends_when_the_code_in_it_raises() -> None:
    with pytest.raises(ZeroDivisionError), xttir.sanitize():
        1 / 0  # noqa: B018
    assert state.installed() is None


def test_policy_may_change_while_open(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake(monkeypatch)
    with xttir.sanitize() as s:
        launch()
        s.policy = s.policy.with_checks("none")
        launch()
    assert calls[0][1].checks
    assert not calls[1][1].checks


def test_wrong_check() -> None:
    with pytest.raises(ValueError, match="unknown check 'nonsense'"):
        xttir.sanitize(checks="nonsense")


def test_unknown_device() -> None:
    with pytest.raises(ValueError, match="no device with compute capability 42"):
        xttir.sanitize(cc=42).__enter__()
    assert state.installed() is None


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XTTIR_CC", "100")
    assert xttir.sanitize().policy.cc == 100
    assert xttir.sanitize(cc=80).policy.cc == 80
