"""The flags of `xttir-opt` beyond those of `xdsl-opt`: MLIR's spellings, and passes as flags.

MLIR's drivers take one dash or two; so does `xttir-opt` for every flag that it has.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from xttir.tools.opt_inputs import MARKER

_SAME = (
    ("--mlir-print-op-generic", "print_op_generic", "--print-op-generic"),
    ("--mlir-print-debuginfo", "print_debuginfo", "--print-debuginfo"),
    ("--mlir-timing", "time_passes", "--time-passes"),
)
"""MLIR's flag, where it goes, and xDSL's flag."""

_SWITCHES = (
    ("--mlir-print-ir-before-all", "Print the IR to stderr before every pass"),
    ("--mlir-print-ir-after-all", "Print the IR to stderr after every pass"),
    ("--mlir-print-ir-after-change", "Of IR after passes, print only what a pass has changed"),
    ("--dump-pass-pipeline", "Print the pipeline that is run to stderr"),
    ("--verify-roundtrip", "Check that every module read is printed so that it reads the same"),
    ("--show-dialects", "Print the names of all dialects and exit"),
    ("--list-passes", "Print the names of all passes and exit"),
)

_ACCEPTED = (
    ("--mlir-print-local-scope", "Accepted; locations are always printed in place"),
    ("--mlir-print-ir-module-scope", "Accepted; modules are always printed whole"),
    ("--mlir-print-ir-after-failure", "Accepted; the IR that fails is not printed"),
    ("--mlir-disable-threading", "Accepted; there is one thread"),
)


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
            spec += "{" + _without_braces(str(values)) + "}"
        _append(namespace, spec)


class TritonFlag(argparse.Action):
    """`--triton-pipeline=cse,canonicalize`: Triton's own passes, at this place among the others."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        text = str(values).replace("\\", "\\\\").replace('"', '\\"')
        _append(namespace, f'triton{{passes="{text}"}}')


def _append(namespace: argparse.Namespace, spec: str) -> None:
    namespace.passes = f"{namespace.passes},{spec}" if namespace.passes else spec


def _without_braces(text: str) -> str:
    return text[1:-1] if text.startswith("{") and text.endswith("}") else text


def add_arguments(parser: argparse.ArgumentParser, passes: Iterable[str]) -> None:
    """Add the flags to xDSL's own, then a flag for each of the passes."""
    parser.add_argument(
        "--pass-pipeline",
        action="store",
        default=None,
        metavar="builtin.module(...)",
        help="Passes in MLIR's syntax; all of them run on the module",
    )
    for flag, destination, what in _SAME:
        parser.add_argument(
            flag, dest=destination, action="store_true", default=False, help=f"Same as {what}"
        )
    for flag, what in (*_SWITCHES, *_ACCEPTED):
        parser.add_argument(flag, action="store_true", default=False, help=what)
    for flag in ("--mlir-print-ir-before", "--mlir-print-ir-after"):
        when = flag.rpartition("-")[2]
        parser.add_argument(
            flag,
            action="append",
            default=[],
            metavar="PASS",
            help=f"Print the IR to stderr {when} these passes",
        )
    parser.add_argument(
        "--verify-each",
        nargs="?",
        const="1",
        default="1",
        metavar="0|1",
        help="Verify the module after every pass (the default)",
    )
    parser.add_argument("--split-marker", default=MARKER, help=argparse.SUPPRESS)
    parser.add_argument(
        "--launch",
        default="",
        metavar="FILE",
        help="Launch description for the verification passes that run or verify a launch",
    )
    parser.add_argument(
        "--triton-pipeline",
        action=TritonFlag,
        metavar="PASSES",
        help="Run passes of the installed Triton, in MLIR's syntax",
    )
    taken = set(parser._option_string_actions)
    for name in passes:
        if f"--{name}" not in taken:
            parser.add_argument(f"--{name}", action=PassFlag, nargs="?", help=argparse.SUPPRESS)


_FIXED = ("-p", "-o", "-f", "-t", "-h", "-v")


def spelled(words: list[str], passes: Iterable[str], known: Iterable[str]) -> list[str]:
    """`words` as argparse wants them: `-split-input-file` with two dashes, `--my-pass FILE` as
    `--my-pass= FILE` (only what follows `=` are options of the pass), a marker as a flag."""
    flags = {f"--{name}" for name in passes}
    every = flags | set(known)
    out: list[str] = []
    for word in words:
        head, equals, rest = word.partition("=")
        if len(head) > 2 and head[0] == "-" != head[1] and f"-{head}" in every:
            word, head = f"-{word}", f"-{head}"
        if head == "--split-input-file" and equals:
            out += ["--split-input-file", f"--split-marker={rest}"]
        elif head == "--verify-each" and not equals:
            out.append("--verify-each=1")
        elif word in flags:
            out.append(f"{word}=")
        else:
            out.append(word)
    return out


def names_in(values: Iterable[str]) -> set[str]:
    """Pass names out of `["a,b", "c"]`."""
    return {name.strip() for text in values for name in text.split(",") if name.strip()}
