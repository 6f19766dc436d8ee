"""The `xttir-opt` command: xDSL's optimizer driver for Triton's IR and PTX.

All flags of `xdsl-opt` work, and the spellings of MLIR's drivers: `--pass-pipeline`,
`--mlir-print-ir-after-all`, `--mlir-print-op-generic`, `--verify-diagnostics` with comments, passes
as flags. Errors in the input are one line with their place, and exit code 2; a verification pass
that finds faults prints them, no module, and exit code 1.
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
from xttir.diagnostics import InputError, Location, Unsupported
from xttir.dialects.context import known_dialects
from xttir.tools.expected import Expectations

_SPLIT = re.compile(r"^// -----.*\n?", re.MULTILINE)
SUFFIXES = ("mlir", "ttir", "ttgir")
KNOWN = (*SUFFIXES, "ptx")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    # For --disable-verify xDSL takes this method away from all attributes of the process.
    verify_attribute = Attribute.__post_init__
    try:
        words = list(sys.argv[1:] if argv is None else argv)
        return XttirOptMain(args=_flags_closed(words)).main()
    except (InputError, Unsupported) as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has gone; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return InputError.exit_code
    finally:
        Attribute.__post_init__ = verify_attribute


def _flags_closed(words: list[str]) -> list[str]:
    """`--my-pass FILE` as `--my-pass= FILE`: only what follows `=` are options of the pass."""
    passes = {f"--{name}" for name in Universe.get_multiverse().all_passes}
    return [f"{word}=" if word in passes else word for word in words]


def _mlir_target() -> type[Target]:
    from xttir.frontends.opt import MlirTarget

    return MlirTarget


class PassFlag(argparse.Action):
    """`--canonicalize`, `--my-pass=option=1`: a pass as a flag of its own."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        spec = (option_string or "").lstrip("-")
        if values:
            spec += "{" + str(values).strip("{}") + "}"
        namespace.passes = f"{namespace.passes},{spec}" if namespace.passes else spec


class XttirOptMain(xDSLOptMain):
    """xDSLOptMain with our dialects, parser and printer, and MLIR's flags."""

    version_format = f"xttir-opt {xttir.__version__} built on xdsl version {{xdsl_version}}"

    def __init__(
        self,
        description: str = "Optimizer driver for Triton's IR and PTX",
        args: Sequence[str] | None = None,
    ):
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
        arg_parser.add_argument(
            "--pass-pipeline",
            action="store",
            default=None,
            metavar="builtin.module(...)",
            help="Passes in MLIR's syntax; all of them run on the module",
        )
        for flag, dest, what in (
            ("--mlir-print-op-generic", "print_op_generic", "--print-op-generic"),
            ("--mlir-print-debuginfo", "print_debuginfo", "--print-debuginfo"),
        ):
            arg_parser.add_argument(
                flag, dest=dest, action="store_true", default=False, help=f"Same as {what}"
            )
        for flag, what in (
            ("--mlir-print-ir-before-all", "Print the IR to stderr before every pass"),
            ("--mlir-print-ir-after-all", "Print the IR to stderr after every pass"),
            ("--mlir-print-local-scope", "Accepted; locations are always printed in place"),
        ):
            arg_parser.add_argument(flag, action="store_true", default=False, help=what)
        arg_parser.add_argument(
            "--launch",
            default="",
            metavar="FILE",
            help="Launch description for the verification passes of PTX kernels",
        )
        taken = set(arg_parser._option_string_actions)
        for name in self.available_passes:
            if f"--{name}" not in taken:
                arg_parser.add_argument(
                    f"--{name}", action=PassFlag, nargs="?", help=argparse.SUPPRESS
                )

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

    def _between(
        self, previous: ModulePass | None, module: ModuleOp, following: ModulePass | None
    ) -> None:
        """Verify and print between passes. The input itself was verified when it was read."""
        if previous is not None:
            if not self.args.disable_verify:
                self._verify(module, previous)
            if self.args.mlir_print_ir_after_all:
                self._dump(module, f"IR Dump After {type(previous).__name__} ({previous.name})")
            if following is not None and self.args.print_between_passes:
                print(f"IR after {previous.name}:\n{self.output_resulting_program(module)}\n")
        if following is not None and self.args.mlir_print_ir_before_all:
            self._dump(module, f"IR Dump Before {type(following).__name__} ({following.name})")

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
        text = self._read_input()
        chunks = [(text, 0)]
        if self.args.split_input_file:
            chunks, start = [], 0
            for match in _SPLIT.finditer(text):
                chunks.append((text[start : match.start()], text.count("\n", 0, start)))
                start = match.end()
            chunks.append((text[start:], text.count("\n", 0, start)))
        output = self._open_output()
        code = 0
        try:
            for i, (chunk, offset) in enumerate(chunks):
                if i:
                    output.write("// -----\n")
                code = max(code, self._process(chunk, offset, output))
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

    def _process(self, chunk: str, offset: int, output: IO[str]) -> int:
        # Blank lines in front give every position its line in the whole file.
        text = "\n" * offset + chunk
        expected = Expectations.of(text) if self.args.verify_diagnostics else None
        try:
            module = self._parse(text)
            self._run_passes(module)
            result = self.output_resulting_program(module)
        except Refuted as error:
            self._report(error)
            return 1
        except InputError as error:
            if expected is not None and expected.any:
                expected.meet(error)
            elif self.args.verify_diagnostics or self.args.parsing_diagnostics:
                print(error, file=output)
            elif self.args.split_input_file:
                print(error, file=sys.stderr)
                return error.exit_code
            else:
                raise
        else:
            output.write(result)
        missed = expected.failures(self.get_input_name()) if expected is not None else []
        for line in missed:
            print(line, file=sys.stderr)
        return 1 if missed else 0

    def _report(self, error: Refuted) -> None:
        """Print the faults of a verification pass."""
        from xttir.tools import render
        from xttir.tools.places import Places

        places = Places(self.get_input_name())
        faults = [places.presented(fault) for fault in error.faults]
        color = render.wants_color(sys.stderr)
        print(render.styled(render.fault_lines(faults), color), end="", file=sys.stderr)

    def _parse(self, text: str) -> ModuleOp:
        frontend = self.args.frontend
        if frontend == "ptx" or (frontend is None and self.get_input_name().endswith(".ptx")):
            from xttir.frontends.ptx import parse_ptx

            return parse_ptx(text, self.get_input_name())
        if frontend is not None and frontend.partition("{")[0] not in SUFFIXES:
            from io import BytesIO

            module = self.parse_chunk(BytesIO(text.encode()), frontend)
            assert module is not None
            return module
        from xttir.frontends.mlir import read_module

        return read_module(
            self.ctx,
            text,
            self.get_input_name(),
            verify=not self.args.disable_verify,
            implicit_module=not self.args.no_implicit_module,
        )

    def _run_passes(self, module: ModuleOp) -> None:
        try:
            self.apply_passes(module)
        except Refuted:
            raise
        except DiagnosticException as error:
            raise InputError(_one_line(error), Location(self.get_input_name())) from error

    def get_input_name(self) -> str:
        name = self.args.input_file
        return "<stdin>" if name in (None, "-") else name

    def _read_input(self) -> str:
        name = self.args.input_file
        try:
            if name in (None, "-"):
                data = sys.stdin.buffer.read()
            else:
                with open(name, "rb") as file:
                    data = file.read()
            suffix = os.path.splitext(name or "")[1].removeprefix(".")
            if self.args.frontend is None and suffix and suffix not in self.available_frontends:
                known = ", ".join(f".{known}" for known in KNOWN)
                raise InputError(
                    f"unknown kind of file '.{suffix}'",
                    Location(name or "-"),
                    f"expected {known} or -",
                )
            return data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            column = error.start - data.rfind(b"\n", 0, error.start)
            at = Location(self.get_input_name(), line, column)
            raise InputError("not a text file (invalid UTF-8)", at) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"cannot read: {reason}", Location(str(name))) from error

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
