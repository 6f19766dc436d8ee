"""MLIR text to xDSL modules: everything that Triton prints, pretty or generic, with locations."""

from __future__ import annotations

import hashlib
from weakref import WeakSet, WeakValueDictionary

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import TypeAttribute
from xdsl.utils.exceptions import ParseError, VerifyException

from xttir.diagnostics import InputError, Location
from xttir.dialects.context import OTHERS, make_context
from xttir.dialects.locations import location_of, locations_of
from xttir.dialects.syntax import verifier
from xttir.dialects.syntax.parser import TTParser
from xttir.garbage import no_collection

__all__ = ["location_of", "locations_of", "parse_module", "read_module"]

_CACHE: WeakValueDictionary[tuple[str, str], ModuleOp] = WeakValueDictionary()
"""Modules that somebody still has, by a digest of their text and by their name."""
_VERIFIED: WeakSet[ModuleOp] = WeakSet()
_context: Context | None = None
_TYPES: dict[str, TypeAttribute] = {}


def parse_module(text: str, name: str = "<module>", verify: bool = True) -> ModuleOp:
    """The module that `text` holds. `name` is the file name shown in errors.

    The same text gives the same (shared) module while it is in use: clone it before changing it.
    `verify` may be left out for what Triton has verified and printed itself. Raises InputError with
    line and column.
    """
    key = (hashlib.sha256(text.encode()).hexdigest(), name)
    module = _CACHE.get(key)
    if module is None or (verify and module not in _VERIFIED):
        module = _CACHE[key] = read_module(_shared_context(), text, name, _TYPES, verify)
        if verify:
            _VERIFIED.add(module)
    return module


def _shared_context() -> Context:
    global _context
    if _context is None:
        _context = make_context()
    for name in OTHERS.keys() - _context.registered_dialect_names:
        _context.register_dialect(name, OTHERS[name])
    return _context


def preload() -> None:
    """Load the dialects that every kernel uses and make the parser ready for their common ops,
    ahead of the first `parse_module`. Again is nothing."""
    context = _shared_context()
    loaded = {dialect.name for dialect in context.loaded_dialects}
    missing = [name for name in ("tt", "arith", "math", "scf", "cf") if name not in loaded]
    for name in missing:
        context.load_registered_dialect(name)
    if missing:
        read_module(context, _COMMON, "<preload>", _TYPES)


_COMMON = """
module {
  tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) {
    %c = arith.constant 4 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.000000e+00> : tensor<4x4xf32>
    %pid = tt.get_program_id x : i32
    %0 = arith.muli %pid, %c : i32
    %1 = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %2 = tt.splat %0 : i32 -> tensor<4xi32>
    %3 = arith.addi %2, %1 : tensor<4xi32>
    %4 = tt.splat %n : i32 -> tensor<4xi32>
    %5 = arith.cmpi slt, %3, %4 : tensor<4xi32>
    %6 = tt.expand_dims %3 {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
    %7 = tt.broadcast %6 : tensor<4x1xi32> -> tensor<4x4xi32>
    %8 = tt.splat %x : !tt.ptr<f32> -> tensor<4x4x!tt.ptr<f32>>
    %9 = tt.addptr %8, %7 : tensor<4x4x!tt.ptr<f32>>, tensor<4x4xi32>
    %10 = tt.load %9 : tensor<4x4x!tt.ptr<f32>>
    %11 = arith.truncf %10 : tensor<4x4xf32> to tensor<4x4xf16>
    %12 = scf.for %i = %c1 to %n step %c1 iter_args(%acc = %zero) -> (tensor<4x4xf32>)  : i32 {
      %20 = tt.dot %11, %11, %acc : tensor<4x4xf16> * tensor<4x4xf16> -> tensor<4x4xf32>
      %21 = arith.addf %20, %10 : tensor<4x4xf32>
      %22 = arith.mulf %21, %10 : tensor<4x4xf32>
      %23 = arith.subf %22, %10 : tensor<4x4xf32>
      %24 = math.exp %23 : tensor<4x4xf32>
      %25 = math.exp2 %24 : tensor<4x4xf32>
      %26 = math.sqrt %25 : tensor<4x4xf32>
      scf.yield %26 : tensor<4x4xf32>
    }
    %13 = "tt.reduce"(%12) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %30 = arith.maxnumf %a, %b : f32
      tt.reduce.return %30 : f32
    }) : (tensor<4x4xf32>) -> tensor<4xf32>
    %14 = arith.extf %11 : tensor<4x4xf16> to tensor<4x4xf32>
    %15 = arith.divf %14, %12 : tensor<4x4xf32>
    %16 = arith.extsi %n : i32 to i64
    %s = arith.sitofp %n : i32 to f32
    %17 = arith.cmpi sge, %16, %16 : i64
    %18 = arith.select %17, %15, %14 : tensor<4x4xf32>
    %19 = arith.andi %5, %5 : tensor<4xi1>
    %v = tt.splat %x : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    tt.store %v, %13, %19 : tensor<4x!tt.ptr<f32>>
    tt.store %9, %18 : tensor<4x4x!tt.ptr<f32>>
    tt.return
  }
}
"""


def read_module(
    context: Context,
    text: str,
    name: str,
    types: dict[str, TypeAttribute] | None = None,
    verify: bool = True,
    implicit_module: bool = True,
) -> ModuleOp:
    """Parse `text` with `context`, uncached. Raises InputError with line and column.

    `types` may be shared between texts read with one context. With `implicit_module` ops that
    stand outside of a module get one.
    """
    try:
        with no_collection():
            parser = TTParser(context, text, name, types)
            module = parser.parse_module(implicit_module)
        if verify:
            verifier.verify(module)
            verifier.check_dominance(module, parser.forward_values)
    except ParseError as error:
        at = error.span.get_location()
        raise InputError(" ".join(error.msg.split()), Location(name, at.line, at.col)) from error
    except verifier.InvalidOp as error:
        raise InputError(str(error), parser.place_of(error.op)) from error
    except RecursionError as error:
        raise InputError("nested too deeply", Location(name)) from error
    except (VerifyException, ValueError, TypeError, LookupError, AssertionError) as error:
        # Attributes check themselves when they are made, wherever the parser stands.
        at = parser.place(parser.pos)
        what = " ".join(str(error).split()) or type(error).__name__
        raise InputError(what, at) from error
    return module
