"""Tables of torch's compilers that know torch's functions by identity.

Dynamo and TorchScript each make such a table once, of the functions that stand in `torch` at that
time: torch's own or our wrappers. Both must be in it, now and after `uninstall`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch

from xttir.frontends.triton import torch_cuda, uninit
from xttir.frontends.triton.patches import Patches


def _same(names: Iterable[str]) -> Iterable[list[Any]]:
    """Per function of torch: what stands there now and what that wraps, down to torch's own."""
    for name in names:
        function, same = getattr(torch, name, None), []
        while function is not None:
            same.append(function)
            function = getattr(function, "__wrapped__", None)
        yield same


def teach_dynamo(names: Iterable[str]) -> None:
    """Give torch's functions and our wrappers of them one rule: Dynamo knows functions by identity
    and makes its table once, of whichever it finds then."""
    from torch._dynamo.trace_rules import get_torch_obj_rule_map

    rules = get_torch_obj_rule_map()
    for same in _same(names):
        rule = next((rules[f] for f in same if f in rules), None)
        if rule is not None:
            rules.update(dict.fromkeys(same, rule))


def teach_torchscript(names: Iterable[str]) -> None:
    """The same for TorchScript, which knows torch's functions by `id`."""
    from torch.jit._builtins import _get_builtin_table

    table = _get_builtin_table()
    for same in _same(names):
        operator = next((table[id(f)] for f in same if id(f) in table), None)
        if operator is not None:
            table.update({id(f): operator for f in same})


def install(patches: Patches) -> None:
    """Complete the tables before `torch.compile` and `torch.jit.script` read them."""
    wrapped = (*torch_cuda.WRAPPED_FUNCTIONS, *uninit.FUNCTIONS)
    torch_compile = torch.compile

    @functools.wraps(torch_compile)
    def compile(*args: Any, **kwargs: Any) -> Any:
        teach_dynamo(wrapped)
        return torch_compile(*args, **kwargs)

    patches.set(torch, "compile", compile)
    torch_script = torch.jit.script

    @functools.wraps(torch_script)
    def script(*args: Any, **kwargs: Any) -> Any:
        teach_torchscript(wrapped)
        return torch_script(*args, **kwargs)

    patches.set(torch.jit, "script", script)
