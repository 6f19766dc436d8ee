"""The options of the commands in one table: flag, environment variable, pytest option, ini key.

`--grid-order` on the command line, `XTTIR_GRID_ORDER` in the environment, `--xttir-grid-order` and
the ini key `xttir_grid_order` under pytest all mean the same and are checked by the same code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xttir.policy import AGENT_ORDERS, CHECKS, GRID_ORDERS, RunPolicy

COMPUTE_CAPABILITIES = (80, 90, 100)
_LINES = r"[1-9]\d*:[1-9]\d*"
FORMATS = ("text", "json", "sarif")


class UsageError(Exception):
    """A wrong option or value. Exit code 2."""


@dataclass(frozen=True)
class Option:
    """One option. `parse` turns text into the value or raises `ValueError` with the reason.

    `flag`: takes no value. `policy`: the field of `RunPolicy` it sets, "" for none.
    """

    name: str
    default: Any
    help: str
    parse: Callable[[str], Any] = str
    metavar: str = ""
    flag: bool = False
    short: str = ""
    policy: str = ""
    optional: str = ""
    """Of a flag: a value that it may take, as a regular expression."""
    repeated: bool = False
    """May be given several times; the value is a tuple."""

    @property
    def env(self) -> str:
        return "XTTIR_" + self.name.upper().replace("-", "_")

    @property
    def key(self) -> str:
        return self.name.replace("-", "_")


def _one_of(values: Sequence[Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        for value in values:
            if str(value) == text:
                return value
        raise ValueError(f"'{text}' is not one of {', '.join(map(str, values))}")

    return parse


def _number(low: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"'{text}' is not an integer") from None
        if value < low:
            raise ValueError(f"{value} is less than {low}")
        return value

    return parse


def _grid(text: str) -> tuple[int, int, int]:
    words = [w.strip() for w in text.split(",")]
    if not 1 <= len(words) <= 3 or not all(w.isdigit() for w in words):
        raise ValueError(f"'{text}' is not X, X,Y or X,Y,Z")
    x, y, z = (*map(int, words), 1, 1)[:3]
    return x, y, z


def _explain(text: str) -> bool | tuple[int, int]:
    if re.fullmatch(_LINES, text):
        first, second = map(int, text.split(":"))
        return first, second
    try:
        return _boolean(text)
    except ValueError:
        raise ValueError(f"'{text}' is not LINE:LINE") from None


def _checks(text: str) -> frozenset[str]:
    return RunPolicy().with_checks(text).checks


_WORDS = {"1": True, "yes": True, "true": True, "on": True}
_WORDS |= {"": False, "0": False, "no": False, "false": False, "off": False}


def _boolean(text: str) -> bool:
    try:
        return _WORDS[text.strip().lower()]
    except KeyError:
        raise ValueError(f"'{text}' is neither yes nor no") from None


RUN_OPTIONS: tuple[Option, ...] = (
    Option(
        "checks",
        frozenset(CHECKS),
        "what to check: names separated by commas, 'all', 'none'; a leading '-' switches one off "
        "(see `xttir checks`)",
        _checks,
        "LIST",
        policy="checks",
    ),
    Option(
        "cc",
        90,
        "compute capability of the device that is stood in for: 80, 90 or 100",
        _one_of(COMPUTE_CAPABILITIES),
        "CC",
        policy="cc",
    ),
    Option(
        "grid-order",
        "forward",
        f"order in which program instances start: {', '.join(GRID_ORDERS)}",
        _one_of(GRID_ORDERS),
        "ORDER",
        policy="grid_order",
    ),
    Option(
        "agent-order",
        "fair",
        f"which partition of a warp-specialised program goes on: {', '.join(AGENT_ORDERS)}",
        _one_of(AGENT_ORDERS),
        "ORDER",
        policy="agent_order",
    ),
    Option(
        "max-steps",
        1_000_000,
        "loop iterations after which a program counts as not ending",
        _number(1),
        "N",
        policy="max_steps",
    ),
    Option(
        "max-trips",
        0,
        "iterations of all counted loops of a launch after which it is given up; 0: no limit",
        _number(0),
        "N",
        policy="max_trips",
    ),
    Option("seed", 0, "seed of shuffled and random orders", _number(0), "N", policy="seed"),
    Option(
        "strict",
        False,
        "count what only the letter of the rules forbids as a fault, not as a warning",
        _boolean,
        flag=True,
        policy="strict",
    ),
    Option(
        "batch",
        0,
        "program instances that run together (0: chosen by size); the result does not depend "
        "on it (advanced)",
        _number(0),
        "N",
        policy="batch",
    ),
)
"""How launches run and what is checked: the fields of `RunPolicy`."""

OUTPUT_OPTIONS: tuple[Option, ...] = (
    Option("format", "text", "text, json or sarif", _one_of(FORMATS), "FORMAT"),
    Option("output", "", "write the report to FILE ('-': standard output)", str, "FILE", short="o"),
    Option(
        "quiet", False, "print no report when nothing was found", _boolean, flag=True, short="q"
    ),
    Option("no-progress", False, "no progress bar for long launches", _boolean, flag=True),
    Option(
        "color",
        "auto",
        "auto, always or never; NO_COLOR is respected",
        _one_of(("auto", "always", "never")),
        "WHEN",
    ),
)
"""What is done with the report."""

ALL_OPTIONS = RUN_OPTIONS + OUTPUT_OPTIONS

_BY_NAME = {option.name: option for option in ALL_OPTIONS}
_LAUNCH = Option(
    "launch",
    "",
    "the launch description (.json or .toml): grid, block, tensors, parameters",
    str,
    "FILE",
)

VERIFY_OPTIONS: tuple[Option, ...] = (
    _LAUNCH,
    Option(
        "init-launch",
        False,
        "print a launch description to fill in, made from the kernel's signature",
        _boolean,
        flag=True,
    ),
    Option("entry", "", "the kernel that --init-launch is for", str, "NAME"),
    _BY_NAME["strict"],
    Option(
        "explain",
        False,
        "print the phases of every barrier and the roles of threads; with LINE:LINE also what "
        "orders two accesses from these lines of the PTX (or the source)",
        _explain,
        "[LINE:LINE]",
        flag=True,
        optional=_LINES,
    ),
    Option("witness", "", "write a schedule that shows each fault into DIR", str, "DIR"),
    Option(
        "confirm",
        False,
        "run each witness on numbers and say whether the fault shows in values",
        _boolean,
        flag=True,
    ),
    Option(
        "dump-launch",
        "",
        "scripts: write the PTX and the launch description of every launch into DIR",
        str,
        "DIR",
    ),
    replace(
        _BY_NAME["max-steps"],
        default=500_000,
        help="steps of a trace (instructions with an effect, executed by threads together) after "
        "which a kernel counts as not ending",
        policy="",
    ),
    replace(
        _BY_NAME["cc"], help="scripts: compute capability to compile for: 80, 90 or 100", policy=""
    ),
    Option(
        "every-size",
        False,
        "scripts: only ask of each kernel's TTIR whether programs conflict or leave their tensors, "
        "for any grid, sizes and strides (by default this and every schedule of the launches)",
        _boolean,
        flag=True,
    ),
    Option(
        "every-schedule",
        False,
        "scripts: only verify the PTX of each launch in every schedule, at the sizes it has",
        _boolean,
        flag=True,
    ),
    Option(
        "level",
        "ptx",
        "scripts: what every schedule is asked of: ptx, ttgir (after barrier insertion) or both",
        _one_of(("ptx", "ttgir", "both")),
        "LEVEL",
    ),
    Option(
        "every-trip",
        False,
        "TTGIR: also whether the verdict holds for every number of iterations",
        _boolean,
        flag=True,
    ),
    Option(
        "assume",
        "",
        "every size: what else is known of the arguments ('n % 64 == 0; s >= n'); a TTGIR module: "
        "their values ('K == 512; grid[0] == 4; idx == [0, 4]')",
        str,
        "WORDS",
    ),
    Option(
        "timeout",
        20,
        "every size, every trip: seconds for each kernel",
        _number(1),
        "SECONDS",
    ),
)
"""What `verify` looks at."""

EXECUTE_OPTIONS: tuple[Option, ...] = (
    _LAUNCH,
    Option(
        "schedule",
        "first",
        "first, random:SEED, adversarial, or a FILE with a witness",
        str,
        "SCHEDULE",
    ),
    replace(_BY_NAME["seed"], help="seed of the random tensors", policy=""),
    _BY_NAME["strict"],
)
"""How `run` runs."""

MODULE_OPTIONS: tuple[Option, ...] = (
    Option(
        "arg",
        (),
        "an argument: n=5, x=random:f32[64,64], x=zeros:[1000], x=arange:i32[8], x=data.npy, "
        "x=null, ...; what is not given is random, buffers as large as the kernel needs them",
        str,
        "NAME=VALUE",
        repeated=True,
    ),
    replace(_LAUNCH, help="all arguments and the grid from a launch description (.json or .toml)"),
    Option("entry", "", "the function to run, where there are several", str, "NAME"),
    Option("grid", (1, 1, 1), "program instances along x, y and z", _grid, "X[,Y[,Z]]"),
    Option("save", "", "write every tensor and result after the run to FILE.npz", str, "FILE"),
    Option("save-launch", "", "write the launch description to FILE.json", str, "FILE"),
    *(
        replace(o, help="seed of random arguments, and of the shuffled grid order")
        if o.name == "seed"
        else o
        for o in RUN_OPTIONS
    ),
)
"""How `run` runs modules of Triton's IR."""

_MODULE_BY_NAME = {option.name: option for option in MODULE_OPTIONS}

VALIDATE_OPTIONS: tuple[Option, ...] = (
    Option(
        "passes",
        "",
        "modules: the passes to apply, as triton-opt takes them "
        "('tritongpu-fuse-nested-loops,canonicalize')",
        str,
        "PIPELINE",
    ),
    replace(
        _BY_NAME["cc"],
        help="compute capability to compile for: 80, 90 or 100",
        policy="",
    ),
    Option(
        "to",
        "ttgir",
        "the last of Triton's stages that is validated: ttir, ttgir, or llir for the passes before "
        "LLVM",
        _one_of(("ttir", "ttgir", "llir")),
        "STAGE",
    ),
    Option("inputs", 32, "edge cases made for each kernel at most", _number(0), "N"),
    Option("per-kernel", 3, "scripts: launches of one kernel that are used", _number(1), "N"),
    replace(_BY_NAME["seed"], help="seed of what is drawn", policy=""),
    _MODULE_BY_NAME["entry"],
    replace(_MODULE_BY_NAME["arg"], help="modules: an argument, as for run"),
    replace(_LAUNCH, help="modules: inputs from a launch description"),
    _MODULE_BY_NAME["grid"],
    Option("html", "", "write one page with stages, diff and values to FILE", str, "FILE"),
)
"""What `validate` compares, and on what."""

REDUCE_OPTIONS: tuple[Option, ...] = (
    Option(
        "passes",
        "",
        "keep: a pass of this pipeline changes the meaning of the module, or fails on it",
        str,
        "PIPELINE",
    ),
    Option("pass", "", "the same for one pass", str, "NAME"),
    Option("check", "", "keep: running the module gives a fault of this kind", str, "KIND"),
    Option("command", "", "keep: the command, given the file, ends with status 0", str, "CMD"),
    Option("keep", "", "keep: the text matches this regular expression", str, "REGEX"),
    Option("output", "", "write the module to FILE (standard output)", str, "FILE", short="o"),
    *(replace(o, help=f"scripts: {o.help}") for o in VALIDATE_OPTIONS if o.name in ("cc", "to")),
    *(o for o in MODULE_OPTIONS if o.name in ("arg", "entry", "grid")),
    replace(_BY_NAME["seed"], help="seed of random arguments", policy=""),
    Option("time", 300, "seconds that the reduction may take", _number(1), "SECONDS"),
    Option("timeout", 60, "seconds that a pass or the command may take", _number(1), "SECONDS"),
    Option("quiet", False, "print nothing but the module", _boolean, flag=True, short="q"),
)
"""What `reduce` keeps, and how long it may take."""

REPORT_OPTIONS = tuple(o for o in OUTPUT_OPTIONS if o.name != "no-progress")


def defaults(
    options: Sequence[Option], environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Values by key before any flag: the environment's where it has one."""
    environment = os.environ if environment is None else environment
    values = {}
    for option in options:
        text = environment.get(option.env)
        values[option.key] = option.default
        if text is not None and (text or option.flag):
            value = checked(option, text, option.env)
            values[option.key] = (value,) if option.repeated else value
    return values


def checked(option: Option, text: str, spelled: str) -> Any:
    """`text` parsed, or `UsageError` naming the flag or variable as the user spelled it."""
    try:
        return option.parse(text)
    except ValueError as error:
        raise UsageError(f"{spelled}: {error}") from None


def split(
    argv: Sequence[str], options: Sequence[Option], also: Sequence[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Leading options of `argv` as values by key, and the rest from the first word that is none.

    Everything after the script's name belongs to the script, so that nothing can be parsed
    beyond it. `also`: words beginning with '-' that belong to the rest ("-m"). Raises `UsageError`.
    """
    by_flag = {f"--{o.name}": o for o in options} | {f"-{o.short}": o for o in options if o.short}
    values: dict[str, Any] = {}
    rest = list(argv)
    while rest:
        word = rest[0]
        if not word.startswith("-") or word == "-" or word in also:
            break
        rest.pop(0)
        if word == "--":
            break
        flag, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        if not word.startswith("--") and len(word) > 2:
            flag, equals, text = word[:2], "=", word[2:]
        option = by_flag.get(flag)
        if option is None:
            raise UsageError(f"unknown option '{flag}'" + near(flag, [*by_flag, "--help"]))
        if option.flag:
            if option.optional and not equals and rest and re.fullmatch(option.optional, rest[0]):
                equals, text = "=", rest.pop(0)
            if equals and not option.optional:
                raise UsageError(f"{flag} takes no value")
            values[option.key] = checked(option, text, flag) if equals else True
            continue
        if not equals:
            if not rest:
                raise UsageError(f"{flag} needs a value ({option.metavar}: {option.help})")
            text = rest.pop(0)
        value = checked(option, text, flag)
        if option.repeated:
            value = (*values.get(option.key, ()), value)
        values[option.key] = value
    return values, rest


def joined(
    first: Mapping[str, Any], second: Mapping[str, Any], options: Sequence[Option]
) -> dict[str, Any]:
    """Values of options that stood before and after a file."""
    several = {o.key for o in options if o.repeated}
    both = {key: (*first[key], *second[key]) for key in several & first.keys() & second.keys()}
    return {**first, **second, **both}


def misplaced(words: Sequence[str], options: Sequence[Option]) -> str:
    """What to say of words of a script that are spelled as options of xttir; "" if there are none.
    They are the script's, which may be what was meant."""
    flags = {f"--{o.name}" for o in options}
    found = [word for word in (w.partition("=")[0] for w in words) if word in flags]
    if not found:
        return ""
    return f"{', '.join(found)} after the script is the script's own; options of xttir come first"


def near(word: str, known: Iterable[str]) -> str:
    """ "; did you mean ...?" when `word` looks like one of `known`, else ""."""
    import difflib

    plain = {name.lstrip("-"): name for name in known}
    close = difflib.get_close_matches(word.lstrip("-"), plain, 1)
    return f"; did you mean '{plain[close[0]]}'?" if close else ""


def policy_of(values: Mapping[str, Any]) -> RunPolicy:
    """The run policy that `values` (by key) describe."""
    return replace(RunPolicy(), **{o.policy: values[o.key] for o in RUN_OPTIONS if o.key in values})


def to_environment(policy: RunPolicy) -> dict[str, str]:
    """The variables that make another process use `policy`."""
    out = {}
    for option in RUN_OPTIONS:
        value = getattr(policy, option.policy)
        if isinstance(value, frozenset):
            value = ",".join(c for c in CHECKS if c in value) or "none"
        out[option.env] = str(int(value)) if isinstance(value, bool) else str(value)
    return out
