"""The `xttir-opt` command: xDSL's optimizer driver for Triton's IR and PTX.

All flags of `xdsl-opt` work, and the spellings of MLIR's drivers (`opt_flags`); inputs may be whole
dumps (`opt_inputs`). Errors in the input are one line with their place, and exit code 2; a
verification pass that finds faults prints them, no module, and exit code 1; one that cannot decide
says so, exit code 3.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import IO, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass, PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ShrinkException
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

import xttir
from xttir import extend
from xttir.analyses.passes import Refuted
from xttir.diagnostics import InputError, Location, Policy, Unsupported
from xttir.dialects.context import known_dialects
from xttir.tools import opt_flags
from xttir.tools.expected import Expectations
from xttir.tools.opt_inputs import SUFFIXES, Chunk, read_chunks


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    # For --disable-verify xDSL takes this method away from all attributes of the process.
    verify_attribute = Attribute.__post_init__
    try:
        words = list(sys.argv[1:] if argv is None else argv)
        extend.load()
        return XttirOptMain(args=words).main()
    except (InputError, Unsupported) as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has gone; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return InputError.exit_code
    finally:
        Attribute.__post_init__ = verify_attribute


def _mlir_target() -> type[Target]:
    from xttir.frontends.opt import MlirTarget

    return MlirTarget


class XttirOptMain(xDSLOptMain):
    """xDSLOptMain with our dialects, parser and printer, and MLIR's flags."""

    version_format = f"xttir-opt {xttir.__version__} built on xdsl version {{xdsl_version}}"

    def __init__(
        self,
        description: str = "Optimizer driver for Triton's IR and PTX",
        args: Sequence[str] | None = None,
    ):
        self._name = ""
        """The file of the chunk at hand."""
        self._last_text = ""
        try:
            super().__init__(description, args)
        except (ValueError, ArgSpecParseError) as error:
            raise InputError(_one_line(error), hint="in the pass pipeline") from error

    # Registration

    def register_all_dialects(self) -> None:
        extend.load()
        known = {**Universe.get_multiverse().all_dialects, **known_dialects()}
        for name, factory in known.items():
            self.ctx.register_dialect(name, factory)
        self.ctx.load_registered_dialect("builtin")

    def register_all_frontends(self) -> None:
        super().register_all_frontends()
        for suffix in SUFFIXES:
            self.available_frontends[suffix] = self.available_frontends["ttir"]

    def register_all_targets(self) -> None:
        super().register_all_targets()
        self.available_targets["mlir"] = _mlir_target

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        opt_flags.add_arguments(arg_parser, self.available_passes)
        parse = arg_parser.parse_args

        def parse_args(args: Sequence[str] | None = None, namespace: Any = None) -> Any:
            known = list(arg_parser._option_string_actions)
            words = opt_flags.spelled(list(args or ()), self.available_passes, known)
            return parse(words, namespace)

        arg_parser.parse_args = parse_args  # type: ignore[method-assign]

    def setup_pipeline(self) -> None:
        spec = self.args.passes
        if self.args.pass_pipeline is not None:
            inner = _inside_module(self.args.pass_pipeline)
            spec = f"{inner},{spec}" if inner and spec else inner or spec
        pipeline = PassPipeline.parse_spec(self.available_passes, spec, self._between)
        if self.args.launch:
            passes = tuple(_with_launch(p, self.args.launch) for p in pipeline.passes)
            pipeline = replace(pipeline, passes=passes)
        self.pipeline = pipeline
        self._print_before = opt_flags.names_in(self.args.mlir_print_ir_before)
        self._print_after = opt_flags.names_in(self.args.mlir_print_ir_after)
        for name in sorted(self._print_before | self._print_after):
            if name not in self.available_passes:
                raise ValueError(f"no pass '{name}' to print the IR around")

    def _between(
        self, previous: ModulePass | None, module: ModuleOp, following: ModulePass | None
    ) -> None:
        """Verify and print between passes. The input itself was verified when it was read."""
        args = self.args
        if previous is not None:
            if not args.disable_verify and args.verify_each not in ("0", "false"):
                self._verify(module, previous)
            if args.mlir_print_ir_after_all or previous.name in self._print_after:
                self._dump_changed(module, previous)
            if following is not None and args.print_between_passes:
                print(f"IR after {previous.name}:\n{self.output_resulting_program(module)}\n")
        if following is not None and (
            args.mlir_print_ir_before_all or following.name in self._print_before
        ):
            self._dump(module, f"IR Dump Before {type(following).__name__} ({following.name})")
        if args.mlir_print_ir_after_change and following is not None:
            self._last_text = self.output_resulting_program(module)

    def _dump_changed(self, module: ModuleOp, after: ModulePass) -> None:
        title = f"IR Dump After {type(after).__name__} ({after.name})"
        unchanged = (
            self.args.mlir_print_ir_after_change
            and self.output_resulting_program(module) == self._last_text
        )
        if not unchanged:
            self._dump(module, title)

    def _dump(self, module: ModuleOp, title: str) -> None:
        text = self.output_resulting_program(module)
        print(f"// -----// {title} //----- //\n{text}", file=sys.stderr)

    @staticmethod
    def _verify(module: ModuleOp, after: ModulePass) -> None:
        from xttir.dialects.locations import location_of
        from xttir.dialects.syntax import verifier

        try:
            verifier.verify(module)
        except verifier.InvalidOp as error:
            what = f"invalid after pass '{after.name}': {error}"
            raise InputError(what, location_of(error.op)) from error

    # Running

    def main(self) -> int:
        """Process the input, chunk by chunk. Returns the exit code."""
        if self.args.show_dialects or self.args.list_passes:
            names = self.ctx.registered_dialect_names
            print("\n".join(sorted(names if self.args.show_dialects else self.available_passes)))
            return 0
        if self.args.dump_pass_pipeline:
            inner = ",".join(str(p.pipeline_pass_spec()) for p in self.pipeline.passes)
            print(f"builtin.module({inner})", file=sys.stderr)
        chunks = self._chunks()
        output = self._open_output()
        code = 0
        try:
            for i, chunk in enumerate(chunks):
                if i:
                    output.write(f"{self.args.split_marker}\n")
                if chunk.title:
                    output.write(f"// {chunk.title}\n")
                code = max(code, self._process(chunk, output, one_of_many=len(chunks) > 1))
        except ShrinkException:
            print("Success, can shrink")
            return 0
        finally:
            output.flush()
            if output is not sys.stdout:
                output.close()
        if self.args.shrink:
            print("Failure, can't shrink")
            return 1
        return code

    def _chunks(self) -> list[Chunk]:
        kinds = set() if self.args.frontend is not None else set(self.available_frontends)
        marker = self.args.split_marker if self.args.split_input_file else None
        return read_chunks(self.args.input_file, kinds, marker)

    def _process(self, chunk: Chunk, output: IO[str], one_of_many: bool) -> int:
        # Blank lines in front give every position its line in the whole file.
        text, self._name = chunk.padded, chunk.name
        expected = Expectations.of(text) if self.args.verify_diagnostics else None
        try:
            module = self._parse(text)
            self._run_passes(module)
            result = self.output_resulting_program(module)
        except Refuted as error:
            if expected is None or not expected.any:
                self._report(error, chunk)
                return 1
            for fault in error.faults:
                expected.meet_fault(fault, fault.policy is Policy.STRICT)
        except InputError as error:
            if expected is not None and expected.any:
                expected.meet(error)
            elif self.args.verify_diagnostics or self.args.parsing_diagnostics:
                print(error, file=output)
            elif one_of_many or self.args.split_input_file:
                print(error, file=sys.stderr)
                return error.exit_code
            else:
                raise
        except Unsupported as error:
            if not one_of_many:
                raise
            print(error, file=sys.stderr)
            return error.exit_code
        else:
            output.write(result)
        missed = expected.failures(chunk.name) if expected is not None else []
        for line in missed:
            print(line, file=sys.stderr)
        return 1 if missed else 0

    def _report(self, error: Refuted, chunk: Chunk) -> None:
        """Print the faults of a verification pass."""
        from xttir.tools import render
        from xttir.tools.places import Places

        places = Places(chunk.name)
        faults = [places.presented(fault) for fault in error.faults]
        color = render.wants_color(sys.stderr)
        if chunk.title:
            print(f"{chunk.name}: {chunk.title}:", file=sys.stderr)
        print(render.styled(render.fault_lines(faults), color), end="", file=sys.stderr)

    def _parse(self, text: str) -> ModuleOp:
        frontend = self.args.frontend
        if frontend == "ptx" or (frontend is None and self._name.endswith(".ptx")):
            from xttir.frontends.ptx import parse_ptx

            return parse_ptx(text, self._name)
        if frontend is not None and frontend.partition("{")[0] not in SUFFIXES:
            from io import BytesIO

            module = self.parse_chunk(BytesIO(text.encode()), frontend)
            assert module is not None
            return module
        module = self._read(text)
        if self.args.verify_roundtrip:
            self._verify_roundtrip(module)
        return module

    def _read(self, text: str) -> ModuleOp:
        from xttir.frontends.mlir import read_module

        return read_module(
            self.ctx,
            text,
            self._name,
            verify=not self.args.disable_verify,
            implicit_module=not self.args.no_implicit_module,
        )

    def _verify_roundtrip(self, module: ModuleOp) -> None:
        printed = self.output_resulting_program(module)
        try:
            again = self.output_resulting_program(self._read(printed))
        except InputError as error:
            what = f"what is printed cannot be read: {error.what}"
            raise InputError(what, Location(self._name)) from error
        if again != printed:
            pairs = enumerate(zip(printed.splitlines(), again.splitlines(), strict=False), 1)
            line = next((n for n, (a, b) in pairs if a != b), 0)
            what = f"line {line} of what is printed reads as something else"
            raise InputError(what, Location(self._name))

    def _run_passes(self, module: ModuleOp) -> None:
        try:
            self.apply_passes(module)
        except Refuted:
            raise
        except DiagnosticException as error:
            raise InputError(_one_line(error), Location(self._name)) from error

    def get_input_name(self) -> str:
        name = self.args.input_file
        return "<stdin>" if name in (None, "-") else name

    def _open_output(self) -> IO[str]:
        name = self.args.output_file
        if name in (None, "-"):
            return sys.stdout
        try:
            return open(name, "w")
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"cannot write: {reason}", Location(name)) from error


def _with_launch(found: ModulePass, launch: str) -> ModulePass:
    """The pass with `--launch`, if it takes a launch description and has none."""
    return replace(found, launch=launch) if getattr(found, "launch", None) == "" else found  # type: ignore[call-arg]


def _inside_module(pipeline: str) -> str:
    """`a,b{x=1}` out of `builtin.module(a,b{x=1})`; a bare list is taken as it is."""
    match = re.fullmatch(r"\s*(?:builtin\.module|any)\s*\((.*)\)\s*", pipeline, re.DOTALL)
    inner = (match.group(1) if match else pipeline).strip()
    nested = re.search(r"([\w.-]+)\s*\(", inner)
    if nested:
        raise ValueError(
            f"'{nested.group(1)}(...)' cannot be nested: passes run on the whole module"
        )
    return re.sub(r"\s*,\s*", ",", inner)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
