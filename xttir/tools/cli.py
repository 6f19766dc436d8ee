"""The `xttir` command: parses the command line, runs, renders the report, chooses the exit code.

Nothing heavy is imported before the command is known.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import xttir
from xttir.policy import CHECKS, RunPolicy
from xttir.tools import options
from xttir.tools.options import Option, UsageError

HELP = """\
usage: xttir COMMAND [OPTIONS] ...

Runs Triton kernels on the CPU from their IR and reports faults at the kernel's line;
verifies PTX kernels in every schedule of their threads and asynchronous operations.

commands:
  sanitize [OPTIONS] SCRIPT [ARGS]     run a script written for device="cuda", check every launch
  sanitize [OPTIONS] -m MODULE [ARGS]  the same for a module
  sanitize [OPTIONS] pytest [ARGS]     the same for a test suite, also under xdist
  verify [OPTIONS] KERNEL.ptx --launch FILE    every schedule of one launch of a PTX kernel
  verify [OPTIONS] MODULE              every schedule of a launch of TTGIR, every size of TTIR
  verify [OPTIONS] SCRIPT.py [ARGS]    every schedule of the PTX of every launch a script makes,
                                       and every size of every kernel that it launches
  run [OPTIONS] KERNEL.ptx --launch FILE       run a PTX kernel on the CPU along one schedule
  run [OPTIONS] MODULE                         run a module (.mlir, .ttir, .ttgir) on arguments
  validate [OPTIONS] SCRIPT.py [ARGS]  the first compiler pass that changes what a kernel means
  validate [OPTIONS] MODULE            the same for a module, through --passes or Triton's own
  validate [OPTIONS] A.mlir B.mlir     whether B does what A does
  reduce [OPTIONS] MODULE              the smallest module in which a pass still goes wrong
  checks                               list the checks that --checks names
  schema [report|launch]               print the JSON schema of --format json, or of --launch

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
        code = COMMANDS[command](rest)
        leaves = command in LEAVES or _script_left()
        return _leave(code) if argv is None and leaves else code
    except UsageError as error:
        print(f"xttir: error: {error}", file=sys.stderr)
        print("xttir --help lists the commands and options", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read our output has gone; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2


LEAVES = ("validate",)
"""Commands that hold so many objects that freeing them one by one takes longer than many a run."""


def _script_left() -> bool:
    """Whether the script has ended the process at once, so that its threads are not waited for."""
    script = sys.modules.get("xttir.tools.script")
    return script is not None and script.left_at_once


def _leave(code: int) -> int:
    """End the process as Python does, but for freeing what the system takes back anyway."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def checks(words: Sequence[str]) -> int:
    """`xttir checks`: names for --checks, with what each looks for."""
    _takes_nothing("checks", words)
    width = max(map(len, CHECKS))
    for name, what in CHECKS.items():
        print(f"{name:<{width}}  {what}")
    return 0


def schema(words: Sequence[str]) -> int:
    """`xttir schema`: the published JSON schema of reports or of launch descriptions."""
    if len(words) > 1 or words not in ([], ["report"], ["launch"]):
        raise UsageError("schema takes 'report' or 'launch', or nothing for 'report'")
    if words == ["launch"]:
        from xttir.frontends.launch_description import schema as published
    else:
        from xttir.tools.json_report import schema as published

    print(json.dumps(published(), indent=2))
    return 0


def verify(words: Sequence[str]) -> int:
    """`xttir verify`: every schedule of a PTX kernel, or of the kernels a script launches."""
    table = options.VERIFY_OPTIONS + options.OUTPUT_OPTIONS
    file, values, rest = _kernel_words("verify", words, table, _verify_help)
    if not file:
        return 0
    from xttir.tools import verify as static

    settings = static.Settings(
        strict=values["strict"],
        explain=values["explain"],
        confirm=values["confirm"],
        witness=values["witness"],
        dump=values["dump_launch"],
        cc=values["cc"],
        most_steps=values["max_steps"],
        every_size=values["every_size"] or not values["every_schedule"],
        every_schedule=values["every_schedule"] or not values["every_size"],
        every_trip=values["every_trip"],
        assume=values["assume"],
        timeout=values["timeout"],
        level=values["level"],
    )
    kernel = _is_ptx(file)
    if _is_module(file):
        return _verify_module(file, values, settings)
    if kernel and (values["every_size"] or values["assume"]):
        word = "--every-size" if values["every_size"] else "--assume"
        raise UsageError(f"{word} is for scripts: it looks at the TTIR of their kernels")
    if values["assume"] and not settings.every_size:
        raise UsageError("--assume is for every size, which --every-schedule leaves out")
    if kernel and values["init_launch"]:
        return _init_launch(file, values["entry"])
    if kernel and not values["launch"]:
        print(static.how_to_launch(file), file=sys.stderr)
        return 2
    if not kernel and (values["launch"] or values["init_launch"]):
        raise UsageError("--launch and --init-launch are for PTX and modules, not for scripts")
    from xttir.tools.output import Output

    bar = not (values["no_progress"] or values["quiet"])
    with Output(values["format"], values["output"], values["quiet"], values["color"]) as output:
        if kernel:
            report = static.verify_ptx(file, values["launch"], settings)
        else:
            from xttir.tools.verify_script import verify_module, verify_script

            start = verify_module if file == "-m" else verify_script
            name, args = (rest[0], rest[1:]) if file == "-m" else (file, rest)
            _note_misplaced(args, table)
            report = start(name, args, settings, bar=bar)
        output.write(report)
    return report.exit_code


def _verify_module(file: str, values: dict[str, Any], settings: Any) -> int:
    """TTGIR in every schedule, TTIR for every size."""
    for name in ("init_launch", "confirm", "witness", "dump_launch"):
        if values[name]:
            raise UsageError(f"--{name.replace('_', '-')} is not for modules")
    if values["launch"] and values["assume"]:
        raise UsageError("--assume and --launch exclude each other")
    from xttir.tools.output import Output
    from xttir.tools.verify_ttgir import verify_file

    with Output(values["format"], values["output"], values["quiet"], values["color"]) as output:
        report = verify_file(file, values["assume"], values["launch"], values["entry"], settings)
        output.write(report)
    return report.exit_code


def run(words: Sequence[str]) -> int:
    """`xttir run`: a PTX kernel, or a module of Triton's IR, on numbers."""
    table = options.EXECUTE_OPTIONS + options.REPORT_OPTIONS
    modules = options.MODULE_OPTIONS + options.REPORT_OPTIONS
    if any(_is_module(word) for word in words):
        table = modules
    file, values, _ = _kernel_words("run", words, table, _run_help)
    if not file:
        return 0
    if _is_module(file):
        return _run_module(file, values)
    if not _is_ptx(file):
        raise UsageError(f"run takes a PTX file or a module, not '{file}'; sanitize runs scripts")
    from xttir.diagnostics import InputError
    from xttir.tools import run as execute
    from xttir.tools.output import Output
    from xttir.tools.verify import how_to_launch

    if not values["launch"]:
        print(how_to_launch(file, "run"), file=sys.stderr)
        return 2
    try:
        schedule = execute.check_schedule(values["schedule"])
    except InputError as error:
        raise UsageError(f"--schedule: {error.what} ({error.hint})") from None
    with Output(values["format"], values["output"], values["quiet"], values["color"]) as output:
        report = execute.run_ptx(file, values["launch"], schedule, values["seed"], values["strict"])
        output.write(report)
    return report.exit_code


def _run_module(file: str, values: dict[str, Any]) -> int:
    from xttir.tools.output import Output
    from xttir.tools.run_module import Inputs, run_module

    inputs = Inputs(
        arguments=values["arg"],
        launch=values["launch"],
        function=values["entry"],
        grid=values["grid"],
        seed=values["seed"],
        save=values["save"],
        save_launch=values["save_launch"],
    )
    with Output(values["format"], values["output"], values["quiet"], values["color"]) as output:
        report = run_module(file, inputs, options.policy_of(values))
        output.write(report)
    return report.exit_code


def validate(words: Sequence[str]) -> int:
    """`xttir validate`: stages of a compilation, or two modules, compared on inputs."""
    table = options.VALIDATE_OPTIONS + options.OUTPUT_OPTIONS
    values = options.defaults(table)
    given, rest = options.split(words, table, also=("-m", "-h", "--help"))
    if rest[:1] in (["-h"], ["--help"]):
        print(_validate_help(), end="")
        return 0
    if not rest:
        raise UsageError("validate needs a script, a module, or two modules")
    if rest == ["-m"]:
        raise UsageError("-m needs a module")
    from xttir.dialects.syntax.lazy_formats import lazy_formats
    from xttir.tools.output import Output

    with lazy_formats():
        from xttir.tools import validate as tool

    files: list[str] = []
    if tool.is_module(rest[0]):
        files, given = _module_words(rest, given, table)
    if "passes" in given and not given["passes"].strip():
        raise UsageError("--passes names no pass")
    if "passes" in given and len(files) != 1:
        what = (
            "two modules are compared as they are" if files else "a script says its passes itself"
        )
        raise UsageError(f"--passes is for one module: {what}")
    values |= given
    settings = tool.Settings(
        passes=values["passes"],
        cc=values["cc"],
        kernel=values["entry"],
        inputs=values["inputs"],
        seed=values["seed"],
        end=values["to"],
        html=values["html"],
        arguments=values["arg"],
        launch=values["launch"],
        grid=values["grid"],
        per_kernel=values["per_kernel"],
    )
    bar = not (values["no_progress"] or values["quiet"])
    if not files:
        _note_misplaced(rest[1:], table)
    with Output(values["format"], values["output"], values["quiet"], values["color"]) as output:
        report = tool.run(rest, files, settings, bar=bar)
        output.write(report)
    return report.exit_code


def reduce(words: Sequence[str]) -> int:
    """`xttir reduce`: the smallest module that shows what a large one shows."""
    table = options.REDUCE_OPTIONS
    values = options.defaults(table)
    given, rest = options.split(words, table, also=("-h", "--help"))
    if rest[:1] in (["-h"], ["--help"]):
        print(_reduce_help(), end="")
        return 0
    if not rest:
        raise UsageError("reduce needs a module (.mlir, .ttir, .ttgir, '-') or a script")
    script = rest[0].endswith(".py")
    files = rest
    if not script:
        files, given = _module_words(rest, given, table)
        if len(files) > 1:
            raise UsageError(f"unexpected '{files[1]}' after '{files[0]}'")
        if not _is_module(files[0]):
            raise UsageError(f"reduce takes a module or a script, not '{files[0]}'")
    values |= given
    kept = [name for name in ("passes", "pass", "check", "command") if values[name]]
    if script and kept:
        raise UsageError(f"--{kept[0]} is for modules: of a script, the first bad pass is found")
    own = [name for name in ("arg", "grid") if name in given]
    if script and own:
        raise UsageError(f"--{own[0]} is for modules: a script makes its launches itself")
    if len(kept) != 1 and not script:
        raise UsageError("reduce needs one of --passes, --pass, --check and --command")
    from xttir.tools.reduce import Settings, reduce_file, reduce_script

    settings = Settings(
        passes=values["passes"] or values["pass"],
        check=values["check"],
        command=values["command"],
        keep=values["keep"],
        output=values["output"],
        arguments=values["arg"],
        grid=values["grid"],
        seed=values["seed"],
        cc=values["cc"],
        end=values["to"],
        function=values["entry"],
        time=values["time"],
        timeout=values["timeout"],
        quiet=values["quiet"],
    )
    return reduce_script(files, settings) if script else reduce_file(files[0], settings)


def _note_misplaced(words: Sequence[str], table: tuple[Option, ...]) -> None:
    """Say that options behind a script's name are not read here."""
    note = options.misplaced(words, table)
    if note:
        print(f"xttir: note: {note}", file=sys.stderr)


def _module_words(
    words: Sequence[str], given: dict[str, Any], table: tuple[Option, ...]
) -> tuple[list[str], dict[str, Any]]:
    """One or two files, and options that stand between and after them."""
    files: list[str] = []
    rest = list(words)
    while rest:
        files.append(rest.pop(0))
        more, rest = options.split(rest, table)
        given = options.joined(given, more, table)
    if len(files) > 2:
        raise UsageError(f"unexpected '{files[2]}': validate compares two modules")
    return files, given


def _is_ptx(file: str) -> bool:
    return file.endswith(".ptx")


def _is_module(file: str) -> bool:
    return file == "-" or file.endswith((".mlir", ".ttir", ".ttgir"))


def _kernel_words(
    command: str, words: Sequence[str], table: tuple[Option, ...], help: Callable[[], str]
) -> tuple[str, dict[str, Any], list[str]]:
    """(file or "-m", values, rest). Options may follow a PTX file; all that follows a script is its
    own. The file is "" when only help was asked for."""
    also = ("-m", "-h", "--help") if command == "verify" else ("-h", "--help")
    values = options.defaults(table)
    given, rest = options.split(words, table, also=also)
    if rest[:1] in (["-h"], ["--help"]):
        print(help(), end="")
        return "", values, []
    if not rest:
        what = "a PTX file or a script" if command == "verify" else "a file"
        raise UsageError(f"{command} needs {what}")
    file, *rest = rest
    if file == "-m" and not rest:
        raise UsageError("-m needs a module")
    if _is_ptx(file) or _is_module(file):
        more, rest = options.split(rest, table)
        given = options.joined(given, more, table)
        if rest:
            raise UsageError(f"unexpected '{rest[0]}' after '{file}'")
    return file, values | given, rest


def _init_launch(file: str, entry: str) -> int:
    """Print a launch description for a kernel."""
    from xttir.diagnostics import InputError
    from xttir.tools.verify import blank_launch

    try:
        print(blank_launch(file, entry))
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
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
    "verify": verify,
    "run": run,
    "validate": validate,
    "reduce": reduce,
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


def _verify_help() -> str:
    lines = [
        "usage: xttir verify [OPTIONS] KERNEL.ptx --launch FILE",
        "       xttir verify [OPTIONS] MODULE [--assume VALUES | --launch FILE]",
        "       xttir verify [OPTIONS] SCRIPT.py [ARGS]",
        "       xttir verify [OPTIONS] -m MODULE [ARGS]",
        "",
        "Proves that every schedule of the threads and asynchronous operations of a launch goes",
        "right: phases of barriers, races, proxies, lifetimes, deadlock. Or gives a schedule that",
        "shows a fault. A script runs on the CPU; the PTX of each launch it makes is verified, or",
        "the TTGIR (--level). A TTGIR module (.mlir, .ttgir, '-') is verified after Triton's",
        "barrier insertion, at the values of --assume or --launch; TTIR for every size.",
        "",
        *_option_help("what is verified:", options.VERIFY_OPTIONS),
        "",
        *_option_help("the report:", options.OUTPUT_OPTIONS),
        "",
        "exit codes: 0 verified, 1 fault found, 2 usage or input error, 3 unknown or unsupported",
    ]
    return "\n".join(lines) + "\n"


def _validate_help() -> str:
    lines = [
        "usage: xttir validate [OPTIONS] SCRIPT.py [ARGS]",
        "       xttir validate [OPTIONS] -m MODULE [ARGS]",
        "       xttir validate [OPTIONS] MODULE [--passes PIPELINE]",
        "       xttir validate [OPTIONS] A.mlir B.mlir",
        "       xttir validate [OPTIONS] DUMP",
        "",
        "Runs a kernel at every stage of its compilation on the same inputs, and names the first",
        "pass that changes what it does, introduces undefined behaviour or reads more memory.",
        "A module (.mlir, .ttir, .ttgir, '-') goes through --passes, else through Triton's own",
        "pipeline from there; of two modules the second must do what the first does. A dump is",
        "what MLIR_ENABLE_DUMP wrote, or a directory of TRITON_KERNEL_DUMP.",
        "",
        *_option_help("what is compared:", options.VALIDATE_OPTIONS),
        "",
        *_option_help("the report:", options.OUTPUT_OPTIONS),
        "",
        "exit codes: 0 verified, 1 fault found, 2 usage or input error, 3 unknown or unsupported",
    ]
    return "\n".join(lines) + "\n"


def _run_help() -> str:
    lines = [
        "usage: xttir run [OPTIONS] KERNEL.ptx --launch FILE",
        "       xttir run [OPTIONS] MODULE",
        "",
        "Runs a PTX kernel on the CPU with the tensors of the launch description, along one",
        "schedule, and compares the outputs with the description's reference.",
        "Or a function of a module in Triton's IR (.mlir, .ttir, .ttgir, '-') on given or random",
        "arguments, checked as sanitize does, and prints what it leaves in memory and returns.",
        "",
        *_option_help("how PTX runs:", options.EXECUTE_OPTIONS),
        "",
        *_option_help("how a module runs:", options.MODULE_OPTIONS),
        "",
        *_option_help("the report:", options.REPORT_OPTIONS),
        "",
        "exit codes: 0 right, 1 wrong or fault found, 2 usage or input error, 3 unsupported",
    ]
    return "\n".join(lines) + "\n"


def _reduce_help() -> str:
    lines = [
        "usage: xttir reduce [OPTIONS] MODULE (--pass NAME | --passes PIPELINE | --check KIND |",
        "                                      --command CMD)",
        "       xttir reduce [OPTIONS] SCRIPT.py [ARGS]",
        "",
        "Shrinks a module as long as it shows what it shows now, and prints the rest, with the",
        "command that reproduces it. Of a script: the module in which the first pass goes wrong.",
        "",
        *_option_help("what is kept, and how:", options.REDUCE_OPTIONS),
        "",
        "exit codes: 0 reduced, 2 usage or input error, or nothing to keep, 3 unsupported",
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
    if option.default in ("", ()):
        return ""
    if option.default == RunPolicy().checks:
        return " (all)"
    if option.name == "grid":
        return f" ({','.join(map(str, option.default))})"
    return f" ({option.default})"


if __name__ == "__main__":
    sys.exit(main())
