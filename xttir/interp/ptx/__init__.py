"""What PTX instructions do: threads run in groups over arrays, on numbers or on unknown data.

`run(module, launch, schedule)` executes a kernel on numbers, `trace.trace(module, launch)` gives
its events.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xttir.interp.ptx.running import Result as Result
    from xttir.interp.ptx.running import run as run


def __getattr__(name: str) -> Any:
    if name in ("run", "Result"):
        from xttir.interp.ptx import running

        return getattr(running, name)
    raise AttributeError(name)
