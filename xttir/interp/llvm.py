"""`llvm` ops that tile IR holds."""

from __future__ import annotations

from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls

from xttir.dialects import llvm
from xttir.interp.machine import Machine
from xttir.interp.tt import check_condition


@register_impls
class LLVMFunctions(InterpreterFunctions):
    """See the module's docstring."""

    @impl(llvm.AssumeOp)
    def assume(self, interp: Interpreter, op: llvm.AssumeOp, args: PythonValues):
        """`tl.assume`: compiled code may do anything where the promise is broken."""
        assert isinstance(interp, Machine)
        check_condition(interp, op, args[0], (), "tl.assume is false here")
        return ()
