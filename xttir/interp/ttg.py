"""`ttg` ops whose meaning does not depend on layouts: here layouts are erased.

A barrier of one program orders its threads, which run in step; converting a layout moves elements
between registers and changes none of them.
"""

from __future__ import annotations

from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls

from xttir.dialects import gluon, ttg


@register_impls
class TritonGPUFunctions(InterpreterFunctions):
    """See the module's docstring."""

    lazy = frozenset({ttg.ConvertLayoutOp, gluon.SetAutoLayoutOp})

    @impl(ttg.ConvertLayoutOp)
    def convert_layout(self, interp: Interpreter, op: ttg.ConvertLayoutOp, args: PythonValues):
        return args

    @impl(gluon.SetAutoLayoutOp)
    def set_auto_layout(self, interp: Interpreter, op: gluon.SetAutoLayoutOp, args: PythonValues):
        return args

    @impl(ttg.BarrierOp)
    def barrier(self, interp: Interpreter, op: ttg.BarrierOp, args: PythonValues):
        return ()
