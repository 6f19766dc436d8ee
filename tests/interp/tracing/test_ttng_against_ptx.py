"""Events of `ttng` ops against those of the PTX that Triton lowers them to: every thread does the
same to mbarriers, groups and hardware barriers, in order, and gives engines the same bytes."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from tests.analyses.test_ttng_modules import RING, STORES, TENSOR, module_of
from xttir.analyses import events as ev
from xttir.analyses.events import Proxy
from xttir.dialects.syntax.printer import module_text
from xttir.frontends.launch_description.match import match
from xttir.frontends.mlir import parse_module
from xttir.frontends.ptx import parse_ptx
from xttir.interp.ptx.trace import trace
from xttir.interp.tracing import Launch, trace_module
from xttir.refine.capture import capture_module
from xttir.refine.stages import Stage
from xttir.refine.to_ptx import launch_of, lower

pytest.importorskip("triton")


def done(found: ev.Trace) -> dict[Any, Any]:
    """By what and thread: what it did, in order; by engine and thread: places, by use."""
    ordered: dict[Any, list[Any]] = defaultdict(list)
    places: dict[Any, set[int]] = defaultdict(set)
    for e in found.events:
        n, lanes = e.lanes.size, e.lanes.tolist()
        match e:
            case ev.ProxyFence(proxy=Proxy.TENSORMAP):
                pass  # tensor maps lie in global memory, which traces of modules leave out
            case ev.AsyncOp():
                _places(e, places)
            case ev.BarrierInit():
                _note(ordered, "init", lanes, e.address, np.broadcast_to(e.count, n))
            case ev.BarrierInval():
                _note(ordered, "inval", lanes, e.address)
            case ev.Arrive():
                k = e.address.shape[-1]
                address = np.broadcast_to(e.address, (n, k))
                counts = (np.broadcast_to(c, n) for c in (e.count, e.expect))
                _note(ordered, f"arrive {e.by}", lanes, address, e.cta, *counts)
            case ev.Wait():
                _note(ordered, "wait", lanes, e.address, e.parity & 1)
            case ev.NamedBarrier():
                _note(ordered, "meet", lanes, np.broadcast_to(e.id, n))
            case ev.GroupCommit() | ev.GroupWait() | ev.TensorWait() | ev.ProxyFence():
                _note(ordered, str(_kind(e)), lanes)
    return {**ordered, **places}


def _kind(e: ev.Event) -> tuple[Any, ...]:
    names = ("engine", "pending", "read", "which", "proxy")
    return (type(e).__name__, *(getattr(e, name, None) for name in names))


def _note(ordered: dict[Any, list[Any]], what: str, lanes: list[int], *columns: Any) -> None:
    for row, lane in enumerate(lanes):
        ordered[what, lane].append([np.asarray(c)[row].tolist() for c in columns])


def _places(e: ev.AsyncOp, places: dict[Any, set[int]]) -> None:
    for row, lane in enumerate(e.lanes[:: e.unit].tolist()):
        for f in e.footprints:
            if f.space is not ev.Space.GLOBAL:
                starts = f.starts[row if f.starts.shape[0] > 1 else 0]
                touched = (starts[starts >= 0][:, None] + np.arange(f.size)).reshape(-1)
                key = (e.engine, lane, str(f.space), str(f.mode), str(f.proxy))
                places[key].update(touched.tolist())


def descriptor(name: str, at: str, rows: int, ty: str) -> str:
    """A descriptor of 1024 x 1024 elements in boxes of 64 columns, made by the kernel."""
    return f"""
  %{name}s = ttg.global_scratch_alloc {{alignment = 128 : i32, nbytes = 128 : i32}} : !tt.ptr<i8>
  %{name}r = arith.constant {rows} : i32
  ttng.tensormap_create %{name}s, {at}, [%c64, %{name}r], [%c1024, %c1024], [%c2048], [%c1, %c1]
    {{elem_type = 6 : i32, interleave_layout = 0 : i32, swizzle_mode = 3 : i32,
      fill_mode = 0 : i32}}
    : (!tt.ptr<i8>, !tt.ptr<f16>, i32, i32, i32, i32, i64, i32, i32) -> ()
  ttng.tensormap_fenceproxy_acquire %{name}s : !tt.ptr<i8>
  %{name} = ttng.reinterpret_tensor_descriptor %{name}s : !tt.ptr<i8> to {ty}"""


def unplaced(text: str) -> str:
    """A module before allocation and barrier insertion, with descriptors of its own."""
    text = re.sub(r"attributes \{allocation[^}]*\}", "", text)
    text = re.sub(r" \{(allocation|tensor_memory_col)[^}]*\}", "", text)
    text = re.sub(r"ttg.shared = \d+ : i32,|, .ttg.total-num-warps. = \d+ : i32", "", text)
    text = re.sub(r"ttng.tmem_wait \w+|ttg.barrier local", "", text)
    text = text.replace("%x: !d, %y: !dt, %n", "%xp: !tt.ptr<f16>, %yp: !tt.ptr<f16>, %n")
    constants = """
  %c64 = arith.constant 64 : i32
  %c1024 = arith.constant 1024 : i32
  %c2048 = arith.constant 2048 : i64"""
    made = descriptor("x", "%xp", 64, "!d") + descriptor("y", "%yp", 128, "!dt")
    last = "  %c2 = arith.constant 2 : i32\n"
    return text.replace(last, f"{last}{constants}{made}\n", 1)


@pytest.mark.parametrize(("body", "cc"), [(RING, 90), (STORES, 90), (TENSOR, 100)])
def test_events(body: str, cc: int):
    early = Stage("", unplaced(module_of(body, cc)), file="k.ttgir")
    module = parse_module(capture_module(early, cc, end="llir")[-1].text, "k.mlir")
    launch = Launch("k", (1, 1, 1), {2: 6})
    (mine,) = trace_module(module, launch)
    made = lower(module_text(module), cc)
    parsed = parse_ptx(made.ptx, "k.ptx")
    a, b = done(mine), done(trace(parsed, match(launch_of(module, launch, made), parsed)))
    assert a.keys() == b.keys()
    for key, what in a.items():
        assert what == b[key], key
