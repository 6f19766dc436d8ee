"""What `xttir run MODULE` does: a function of Triton's IR on given or random arguments.

The module runs as launches do under `sanitize`, with the same checks. What it leaves in memory and
what it returns is printed, and may be saved.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xttir.diagnostics import InputError, Location
from xttir.dialects.layouts.placement import capability_at
from xttir.frontends.launch_description import (
    LaunchDescription,
    ScalarParam,
    TensorSpec,
    compare,
    load,
    reference,
)
from xttir.frontends.module_launch import (
    ModuleLaunch,
    bind,
    describe,
    find_function,
    find_sizes,
    parameters,
    split_argument,
)
from xttir.policy import RunPolicy
from xttir.tools.report import Report
from xttir.tools.run import mismatch, shown
from xttir.tools.verify import guarded

SUFFIXES = (".mlir", ".ttir", ".ttgir")

MAX_SHOWN = 16
"""Elements of a tensor that are printed; of larger ones the first and last three."""


@dataclass(frozen=True)
class Inputs:
    """What the command line says of the arguments. `launch`: a description, then the rest is left
    out. `save`: file for the memory after the run, `save_launch` for the description."""

    arguments: Sequence[str] = ()
    launch: str = ""
    function: str = ""
    grid: tuple[int, int, int] = (1, 1, 1)
    seed: int = 0
    save: str = ""
    save_launch: str = ""


def run_module(path: str, inputs: Inputs, policy: RunPolicy) -> Report:
    """`xttir run K.ttir`, "-" for standard input. Raises nothing: all is in the report."""
    began = time.monotonic()
    report = Report(command="run", policy=policy)
    with guarded(report):
        module = read_module_file(path)
        description = description_of(module, inputs, policy)
        _execute(module, path, description, inputs, report)
    report.wall = time.monotonic() - began
    return report


def read_module_file(path: str) -> ModuleOp:
    """The module of a file, or of standard input ("-"). Raises `InputError`."""
    from xttir.frontends.mlir import parse_module

    return parse_module(read_text(path), "<stdin>" if path == "-" else path)


def read_text(path: str) -> str:
    """The text of a file, or of standard input ("-"). Raises `InputError`."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", Location(path)) from error
    name = "<stdin>" if path == "-" else path
    try:
        # A byte order mark at the beginning is no text.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not a text file (invalid UTF-8)", Location(name, line)) from error
    if not text.strip():
        raise InputError("the file is empty", Location(name))
    return text


def description_of(module: ModuleOp, inputs: Inputs, policy: RunPolicy) -> LaunchDescription:
    """The launch that the command line asks for, complete with sizes."""
    if inputs.launch:
        if inputs.arguments:
            raise InputError("--arg and --launch exclude each other")
        description = load(inputs.launch, module=True)
        entry = inputs.function or description.entry
        return replace(description, entry=find_function(module, entry).sym_name.data)
    given: dict[str, str] = {}
    for word in inputs.arguments:
        name, value = split_argument(word)
        if name in given:
            raise InputError(f"argument `{name}` is given twice")
        given[name] = value
    described = describe(
        module, given, function=inputs.function, grid=inputs.grid, seed=inputs.seed
    )
    return find_sizes(
        module, described.description, described.open, seed=inputs.seed, policy=policy
    )


def _execute(
    module: ModuleOp, path: str, description: LaunchDescription, inputs: Inputs, report: Report
) -> None:
    from xttir.interp.executor import run_launch

    bound = bind(module, description, seed=inputs.seed)
    if capability_at(module) is not None:
        report.policy = replace(report.policy, cc=bound.launch.cc)
    before = {name: array.copy() for name, array in bound.data.items()}
    expected = reference(description, before)
    if inputs.save_launch:
        _save_launch(description, inputs)
    result = run_launch(bound.launch, report.policy)
    report.launches, report.programs, report.seconds = 1, result.programs, result.seconds
    report.counts = result.counts
    report.faults += result.faults
    gx, gy, gz = description.grid
    report.results.append(f"{description.entry} ({path}), grid ({gx}, {gy}, {gz})")
    report.results += [f"  {line}" for line in argument_lines(module, bound, before)]
    for n, value in enumerate(result.results):
        report.results.append(f"  result {n}: {values_text(_settled(value))}")
    for difference in compare(description, bound.data, expected):
        report.results.append(f"  {shown(difference, description)}")
        if not difference.ok:
            report.faults.append(mismatch(difference, description, path))
    if inputs.save:
        _save(inputs.save, bound, result.results)


def argument_lines(
    module: ModuleOp, bound: ModuleLaunch, before: Mapping[str, np.ndarray]
) -> list[str]:
    """A line per argument: numbers as they are, tensors as they are now and what changed."""
    description = bound.description
    function = find_function(module, description.entry)
    lines = []
    told: set[str] = set()
    for parameter, param in zip(parameters(function), description.params, strict=True):
        if isinstance(param, ScalarParam):
            lines.append(f"{parameter.name} = {param.value}")
            continue
        key = getattr(param, "tensor", None)
        if key is None:
            lines.append(f"{parameter.name} = null")
        elif key not in told:
            told.add(key)
            spec = description.tensors[key]
            text = tensor_text(spec, before[key], bound.data[key])
            lines.append(f"{parameter.name} {spec.dtype.name}{list(spec.shape)}{text}")
        else:
            lines.append(f"{parameter.name}: the same tensor as `{key}`")
    return lines


def tensor_text(spec: TensorSpec, before: np.ndarray, after: np.ndarray) -> str:
    """What a run did to one tensor: ": not changed", or how many elements changed, and values."""
    old, new = (spec.view(_bits(a)) for a in (before, after))
    changed = int((old != new).sum())
    if not changed:
        return ": not changed"
    total = "all" if changed == new.size else f"{changed:,} of {new.size:,}"
    return f": {total} elements changed, now {values_text(spec.view(after))}"


def _bits(flat: np.ndarray) -> np.ndarray:
    return flat.view(np.dtype(f"u{flat.dtype.itemsize}"))


def values_text(values: np.ndarray) -> str:
    """The elements on one line; of many only the first and last."""
    held = np.asarray(values)
    if held.dtype.kind not in "biuf":
        held = held.astype(np.float32)
    text = np.array2string(
        held, threshold=MAX_SHOWN, edgeitems=3, separator=", ", max_line_width=1 << 30
    )
    return " ".join(text.split())


def _settled(value: np.ndarray) -> np.ndarray:
    """A result without its axis of programs where all agree."""
    return value[0] if (value == value[:1]).all() else value


def _save(file: str, bound: ModuleLaunch, results: list[np.ndarray]) -> None:
    arrays: dict[str, Any] = {
        name: np.array(bound.tensor(name)) for name in bound.description.tensors
    }
    arrays |= {f"result{n}": value for n, value in enumerate(results)}
    # numpy's format has no names for narrow floats: they are saved as their bits.
    arrays = {
        name: a if a.dtype.kind in "biuf" else a.view(np.dtype(f"u{a.dtype.itemsize}"))
        for name, a in arrays.items()
    }
    try:
        with open(file, "wb") as stream:
            np.savez(stream, **arrays)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}", Location(file)) from error


def _save_launch(description: LaunchDescription, inputs: Inputs) -> None:
    from xttir.frontends.launch_description import dump

    try:
        dump(description, inputs.save_launch)
    except OSError as error:
        at = Location(inputs.save_launch)
        raise InputError(f"cannot write: {error.strerror or error}", at) from error
