"""The `xttir` command: parses the command line, runs, renders the report, chooses the exit code.

Nothing heavy is imported before the command is known.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence

import xttir
from xttir.policy import CHECKS, RunPolicy
from xttir.tools import options
from xttir.tools.options import Option, UsageError

HELP = """\
usage: xttir COMMAND [OPTIONS] ...

Runs Triton kernels on the CPU from their IR and reports faults at the kernel's line.

commands:
  sanitize [OPTIONS] SCRIPT [ARGS]     run a script written for device="cuda", check every launch
  sanitize [OPTIONS] -m MODULE [ARGS]  the same for a module
  sanitize [OPTIONS] pytest [ARGS]     the same for a test suite, also under xdist
  checks                               list the checks that --checks names
  schema                               print the JSON schema of --format json

  --version, -V    print the version
  --help, -h       print this, or after a command its options

exit codes: 0 clean, 1 fault found, 2 usage or input error, 3 unknown or unsupported
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    command, *rest = words or ["--help"]
    try:
        if command in ("-h", "--help", "help"):
            print(HELP, end="")
            return 0 if words else 2
        if command in ("-V", "--version"):
            print(f"xttir {xttir.__version__}")
            return 0
        if command not in COMMANDS:
            raise UsageError(f"unknown command '{command}'" + options.near(command, COMMANDS))
        return COMMANDS[command](rest)
    except UsageError as error:
        print(f"xttir: error: {error}", file=sys.stderr)
        print("xttir --help lists the commands and options", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read our output has gone; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2


def checks(words: Sequence[str]) -> int:
    """`xttir checks`: names for --checks, with what each looks for."""
    _takes_nothing("checks", words)
    width = max(map(len, CHECKS))
    for name, what in CHECKS.items():
        print(f"{name:<{width}}  {what}")
    return 0


def schema(words: Sequence[str]) -> int:
    """`xttir schema`: the published JSON schema."""
    _takes_nothing("schema", words)
    from xttir.tools.json_report import schema as published

    print(json.dumps(published(), indent=2))
    return 0


def sanitize(words: Sequence[str]) -> int:
    """`xttir sanitize`: run a script, module or test suite and report on every launch."""
    values = options.defaults(options.ALL_OPTIONS)
    given, rest = options.split(words, options.ALL_OPTIONS, also=("-m", "-h", "--help"))
    values |= given
    if rest[:1] in (["-h"], ["--help"]):
        print(_sanitize_help(), end="")
        return 0
    if not rest:
        raise UsageError("sanitize needs a script, '-m MODULE' or 'pytest'")
    if rest == ["-m"]:
        raise UsageError("-m needs a module")
    policy = options.policy_of(values)
    from xttir.tools import sanitize as run
    from xttir.tools.output import Output

    progress = not (values["no_progress"] or values["quiet"])
    with Output(values["format"], values["output"], values["quiet"], values["color"]) as output:
        if rest[0] == "pytest" or rest[:2] == ["-m", "pytest"]:
            report = run.run_pytest(rest[1:] if rest[0] == "pytest" else rest[2:], policy)
        elif rest[0] == "-m":
            report = run.run_module(rest[1], rest[2:], policy, progress=progress)
        else:
            report = run.run_script(rest[0], rest[1:], policy, progress=progress)
        output.write(report)
    return report.exit_code


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "sanitize": sanitize,
    "checks": checks,
    "schema": schema,
}


def _takes_nothing(command: str, words: Sequence[str]) -> None:
    if words:
        raise UsageError(f"{command} takes no arguments")


def _sanitize_help() -> str:
    lines = [
        "usage: xttir sanitize [OPTIONS] SCRIPT [ARGS]",
        "       xttir sanitize [OPTIONS] -m MODULE [ARGS]",
        "       xttir sanitize [OPTIONS] pytest [ARGS]",
        "",
        'Runs a program written for device="cuda" on the CPU and checks every kernel launch.',
        "Options come before the script; all that follows it is the script's.",
        "",
        *_option_help("what is run and checked:", options.RUN_OPTIONS),
        "",
        *_option_help("the report:", options.OUTPUT_OPTIONS),
        "",
        "Each option is also an environment variable: --grid-order is XTTIR_GRID_ORDER.",
        "exit codes: 0 clean, 1 fault found, 2 usage or input error, 3 unknown or unsupported",
    ]
    return "\n".join(lines) + "\n"


def _option_help(title: str, table: Sequence[Option]) -> list[str]:
    import textwrap

    lines = [title]
    for option in table:
        short = f"-{option.short}, " if option.short else ""
        spelled = f"  {short}--{option.name} {option.metavar}".rstrip()
        body = option.help if option.flag else f"{option.help}{_default(option)}"
        wrapped = textwrap.wrap(body, 62)
        if len(spelled) > 24:
            lines.append(spelled)
            spelled = ""
        lines.append(f"{spelled:<26}{wrapped[0]}")
        lines += [" " * 26 + line for line in wrapped[1:]]
    return lines


def _default(option: Option) -> str:
    if option.default in ("", RunPolicy().checks):
        return "" if option.default == "" else " (all)"
    return f" ({option.default})"


if __name__ == "__main__":
    sys.exit(main())
