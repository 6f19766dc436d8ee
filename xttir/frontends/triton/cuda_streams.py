"""Streams, events and graphs of `torch.cuda` where everything runs at once and in order.

A stream is a number; work is done when it is asked for, so every order that streams and events ask
for holds. A graph records what its capture asks for, tensor operations through the dispatcher and
kernel launches through the driver, and does it when replayed.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_local = threading.local()
_ids = itertools.count(0x10)


class Stream:
    """`torch.cuda.Stream`. `handle`: the number of a stream that exists already."""

    device_index = 0
    device_type = 1

    def __init__(
        self, device: Any = None, priority: int = 0, *, handle: int | None = None, **_: Any
    ):
        self.cuda_stream = next(_ids) if handle is None else handle
        self.priority = priority
        self.device = torch.device("cuda", 0)

    @property
    def stream_id(self) -> int:
        return self.cuda_stream

    def wait_event(self, event: Any) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def is_capturing(self) -> bool:
        return capturing() is not None

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return 0, -5

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    def __enter__(self) -> Any:
        self._context = StreamContext(self)
        self._context.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._context.__exit__(*exc)


class ExternalStream(Stream):
    """`torch.cuda.ExternalStream`: a stream by its handle."""

    def __init__(self, stream_ptr: int, device: Any = None, **_: Any):
        super().__init__(device, handle=stream_ptr)


DEFAULT = Stream(handle=0)


def current_stream(device: Any = None) -> Stream:
    return getattr(_local, "stream", DEFAULT)


def default_stream(device: Any = None) -> Stream:
    return DEFAULT


def set_stream(stream: Any) -> None:
    if stream is not None:
        _local.stream = stream


class StreamContext:
    """`with torch.cuda.stream(s)`."""

    def __init__(self, stream: Any):
        self.stream = stream
        self.previous: list[Stream] = []

    def __enter__(self) -> None:
        self.previous.append(current_stream())
        set_stream(self.stream)

    def __exit__(self, *exc: Any) -> None:
        set_stream(self.previous.pop())


class Event:
    """`torch.cuda.Event`. Times are the host's."""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ):
        self.enable_timing = enable_timing
        self.device = torch.device("cuda", 0)
        self.time: float | None = None

    def record(self, stream: Any = None) -> None:
        self.time = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds between the two recordings."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.time is None or end_event.time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return max((end_event.time - self.time) * 1e3, 1e-6)

    @property
    def cuda_event(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return "<torch.cuda.Event>"


# Graphs.


def capturing() -> CUDAGraph | None:
    """The graph that is being captured in this thread."""
    return getattr(_local, "graph", None)


class _Recorder(TorchDispatchMode):
    """Records tensor operations. What only changes existing tensors is left for the replay."""

    def __init__(self, graph: CUDAGraph):
        super().__init__()
        self.graph = graph

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        written = [
            args[i] if i < len(args) else kwargs.get(a.name)
            for i, a in enumerate(func._schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write
        ]
        if written and all(isinstance(w, torch.Tensor) for w in written):
            self.graph.add(lambda: func(*args, **kwargs))
            return written[0] if len(written) == 1 else tuple(written)
        result = func(*args, **kwargs)
        if not any(r.alias_info for r in func._schema.returns):
            self.graph.add(lambda: _refill(result, func(*args, **kwargs)))
        return result


def _refill(old: Any, new: Any) -> None:
    """Put what a replayed operation gave where the captured one had its result."""
    if isinstance(old, torch.Tensor):
        if old.numel() and old.data_ptr() != new.data_ptr():
            old.copy_(new)
    elif isinstance(old, (list, tuple)):
        for a, b in zip(old, new, strict=True):
            _refill(a, b)


class CUDAGraph:
    """`torch.cuda.CUDAGraph`: a list of actions."""

    def __init__(self, keep_graph: bool = False):
        self._actions: list[Callable[[], Any]] = []
        self._recorder: _Recorder | None = None

    def add(self, action: Callable[[], Any]) -> None:
        self._actions.append(action)

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        if capturing() is not None:
            raise RuntimeError("a graph is being captured already")
        self._actions = []
        self._recorder = _Recorder(self)
        _local.graph = self
        self._recorder.__enter__()

    def capture_end(self) -> None:
        if self._recorder is None:
            raise RuntimeError("no capture was begun")
        self._recorder.__exit__(None, None, None)
        self._recorder = None
        _local.graph = None

    def instantiate(self) -> None:
        pass

    def replay(self) -> None:
        for action in self._actions:
            action()

    def reset(self) -> None:
        self._actions = []

    def pool(self) -> tuple[int, int]:
        return 0, 1

    def enable_debug_mode(self) -> None:
        pass

    def debug_dump(self, debug_path: str) -> None:
        pass


@contextlib.contextmanager
def graph(
    cuda_graph: CUDAGraph,
    pool: Any = None,
    stream: Any = None,
    capture_error_mode: str = "global",
    **_: Any,
) -> Iterator[None]:
    """`with torch.cuda.graph(g)`."""
    with StreamContext(stream or Stream()):
        cuda_graph.capture_begin()
        try:
            yield
        finally:
            cuda_graph.capture_end()


def make_graphed_callables(callables: Any, *args: Any, **kwargs: Any) -> Any:
    """The callables themselves: run eagerly they do what their graphs would."""
    return callables
