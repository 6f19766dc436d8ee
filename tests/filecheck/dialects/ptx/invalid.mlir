// RUN: xttir-opt %s --split-input-file --verify-diagnostics

"ptx.func"() <{sym_name = "k", linking = "", return_params = [], params = [], directives = {}}> ({
  // expected-error@+1 {{ld has no modifier `.sharedd`}}
  %r1 = ptx.ld "sharedd.b32" ([4]) : -> b32 "%r1"
  ptx.end
}) : () -> ()

// -----

"ptx.func"() <{sym_name = "k", linking = "", return_params = [], params = [], directives = {}}> ({
  %r1 = ptx.mov "u32" (0) : -> b32 "%r1"
  %p1 = ptx.setp "eq.u32" (%r1, 0) : b32 "%r1" -> pred "%p1"
  // expected-error@+1 {{needs the old values of the registers that it defines}}
  %r1_1 = ptx.mov "u32" (1) if %p1 : pred "%p1" -> b32 "%r1"
  ptx.end
}) : () -> ()

// -----

"ptx.func"() <{sym_name = "k", linking = "", return_params = [], params = [], directives = {}}> ({
  %r1 = ptx.mov "u32" (0) : -> b32 "%r1"
  %r2 = ptx.mov "u32" (0) : -> b32 "%r2"
  // expected-error@+1 {{operands for the successors do not fit their arguments}}
  ptx.bra to ^bb1 with %r1 : b32 "%r1"
^bb1(%0: !ptx.reg<b32 "%r2">):
  ptx.end
}) : () -> ()

// -----

"ptx.func"() <{sym_name = "k", linking = "", return_params = [], params = [], directives = {}}> ({
  // expected-error@+1 {{there is no use 3}}
  %r1 = "ptx.mov"() <{modifiers = ["u32"], dst = [], src = [#ptx.r<#builtin.int<3>, #builtin.int<0>, "">], operandSegmentSizes = array<i32: 0, 0, 0, 0>}> : () -> !ptx.reg<b32 "%r1">
  ptx.end
}) : () -> ()
