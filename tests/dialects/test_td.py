"""Our ops against Triton's own definitions: the `.td` files that its wheel installs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from xdsl.irdl import (
    IRDLOperation,
    OptionalDef,
    OptPropertyDef,
    VariadicDef,
)

from tests.dialects.td_reader import (
    Argument,
    OdsOp,
    read_attributes,
    read_enum_cases,
    read_ops,
)
from xttir.dialects import gluon, tt, ttg, tti, ttng
from xttir.dialects.layouts import enums as layout_enums
from xttir.dialects.layouts.rules import known_parameters
from xttir.dialects.ods import OdsEnum
from xttir.dialects.tt.versions import REMOVED
from xttir.dialects.ttg.types import AddrSpace

# ODS names that would hide an attribute of xDSL's Operation, or that have no name in ODS.
RENAMED = {"operands": "args_", "results": "results_", "in": "in_", "NaN": "nan"}
UNNAMED_RESULT = "res"


def _include() -> Path:
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        pytest.skip("Triton is not installed, hence no .td files")
    path = Path(spec.origin).parent / "include/triton/Dialect"
    if not path.is_dir():
        pytest.skip("this Triton installs no .td files")
    return path


DIALECTS = {
    "tt": ("Triton/IR/TritonOps.td", tt.TT),
    "ttg": ("TritonGPU/IR/TritonGPUOps.td", ttg.TTG),
    "ttng": ("TritonNvidiaGPU/IR/TritonNvidiaGPUOps.td", ttng.TTNG),
    "gluon": ("Gluon/IR/GluonOps.td", gluon.GLUON),
    "tti": ("TritonInstrument/IR/TritonInstrumentOps.td", tti.TTI),
}
HAND_WRITTEN = {
    "ttng.warp_group_dot_wait",
    "ttng.tensormap_create",
}
"""Ops whose format IRDL cannot say, so that they are parsed by a method."""


def snake(name: str) -> str:
    """The field name for an ODS name: `isVolatile` gives `is_volatile`."""
    if name in RENAMED:
        return RENAMED[name]
    name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name)
    return name.lower()


def describe_ours(op: type[IRDLOperation]) -> dict[str, list[str]]:
    """Fields of an op, each with a mark: `?` optional, `*` variadic, `=` with a default."""
    definition = op.get_irdl_definition()

    def mark(d: object) -> str:
        if isinstance(d, OptionalDef):
            return "?"
        return "*" if isinstance(d, VariadicDef) else ""

    names = {ir: field for field, (ir, _) in definition.accessor_names.items()}
    return {
        "operands": [name + mark(d) for name, d in definition.operands],
        "results": [name + mark(d) for name, d in definition.results],
        "regions": [name + mark(d) for name, d in definition.regions],
        "attributes": sorted(
            f"{names[ir]}:{ir}"
            + ("?" if isinstance(d, OptPropertyDef) else "")
            + ("=" if d.default_value is not None else "")
            for ir, d in definition.properties.items()
            if not ir.endswith("SegmentSizes")
        ),
    }


def describe_theirs(op: OdsOp) -> dict[str, list[str]]:
    def value(argument: Argument) -> str:
        name = snake(argument.name) if argument.name else UNNAMED_RESULT
        return name + ("?" if argument.is_optional else "*" if argument.is_variadic else "")

    return {
        "operands": [value(a) for a in op.operands],
        "results": [value(a) for a in op.results],
        "regions": [
            snake(a.name) + ("*" if a.constraint.startswith("VariadicRegion") else "")
            for a in op.regions
        ],
        "attributes": sorted(
            f"{snake(a.name)}:{a.name}"
            + ("?" if a.is_optional else "")
            + ("=" if a.has_default else "")
            for a in op.attributes
        ),
    }


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_op_is_defined_and_none_besides(dialect: str) -> None:
    path, ours = DIALECTS[dialect]
    theirs = {f"{dialect}.{op.name}": op.cls for op in read_ops(_include() / path)}
    assert theirs
    # Those of older releases stand in a table.
    assert REMOVED.isdisjoint(theirs)
    got = {op.name: op.__name__ for op in ours.operations if op.name not in REMOVED}
    assert got == theirs


@pytest.mark.parametrize("dialect", DIALECTS)
def test_operands_attributes_results_and_regions(dialect: str) -> None:
    path, ours = DIALECTS[dialect]
    by_name = {op.name: op for op in ours.operations}
    different = {}
    for op in read_ops(_include() / path):
        cls = by_name[f"{dialect}.{op.name}"]
        assert issubclass(cls, IRDLOperation)
        got, want = describe_ours(cls), describe_theirs(op)
        if got != want:
            different[op.name] = {k: (got[k], want[k]) for k in got if got[k] != want[k]}
    assert different == {}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_terminators_and_effects(dialect: str) -> None:
    """Traits that change what a pass or an interpreter may do."""
    from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure

    path, ours = DIALECTS[dialect]
    by_name = {op.name: op for op in ours.operations}
    for op in read_ops(_include() / path):
        cls = by_name[f"{dialect}.{op.name}"]
        words = set(re.findall(r"\w+", op.traits))
        for word, trait in (
            ("Terminator", IsTerminator),
            ("IsolatedFromAbove", IsolatedFromAbove),
            ("Pure", Pure),
        ):
            assert (word in words) == cls.has_trait(trait), (op.name, word)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_segments(dialect: str) -> None:
    """How groups of operands and results are told apart in the generic form."""
    path, ours = DIALECTS[dialect]
    by_name = {op.name: op for op in ours.operations}
    for op in read_ops(_include() / path):
        cls = by_name[f"{dialect}.{op.name}"]
        assert issubclass(cls, IRDLOperation)
        options = {type(option).__name__ for option in cls.get_irdl_definition().options}
        words = set(re.findall(r"\w+", op.traits))
        groups = sum(a.is_optional or a.is_variadic for a in op.operands)
        for word in (
            "AttrSizedOperandSegments",
            "AttrSizedResultSegments",
            # With one group there is nothing to tell apart.
            *(["SameVariadicOperandSize"] if groups > 1 else []),
        ):
            assert (word in words) == (word in options), (op.name, word)


def _plain(format_: str) -> str:
    """A format without what both spell differently and means the same in print.

    Enums are custom directives here; types that ODS prints without their name (where the format
    does not say `qualified`) parse with it too; hints of older releases only parse.
    """
    text = re.sub(r"custom<(CacheHints|OldNames)>\(\)", "", format_)
    text = re.sub(r"custom<Bare\w+>\((type\(\$\w+\))\)", r"\1", text)
    text = re.sub(r"qualified\((type\((?:\$\w+|operands|results)\))\)", r"\1", text)
    text = re.sub(r"custom<(?!Token|BarriersAndPreds|Offsets)\w+>\((\$\w+)\)", r"\1", text)
    # `` and ` ` say where blanks go.
    return re.sub(r"\s+", "", text.replace("` `", "").replace("``", ""))


def _with_our_names(op: OdsOp) -> str:
    """The ODS format of `op` with operands and results named as here."""
    assert op.assembly_format is not None
    names = {a.name: snake(a.name) for a in (*op.operands, *op.results) if a.name}
    if op.name == "call":
        # Its one group of results has no name there.
        return op.assembly_format.replace("$operands", "$args_").replace(" results)", " $res)")
    return re.sub(r"\$(\w+)", lambda m: "$" + names.get(m.group(1), m.group(1)), op.assembly_format)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_assembly_formats(dialect: str) -> None:
    path, ours = DIALECTS[dialect]
    by_name = {op.name: op for op in ours.operations}
    different = {}
    for op in read_ops(_include() / path):
        cls = by_name[f"{dialect}.{op.name}"]
        assert issubclass(cls, IRDLOperation)
        ours_format = cls.get_irdl_definition().assembly_format
        if op.assembly_format is None or f"{dialect}.{op.name}" in HAND_WRITTEN:
            assert ours_format is None or op.assembly_format is None, op.name
            continue
        assert ours_format is not None, op.name
        got, want = _plain(ours_format), _plain(_with_our_names(op))
        if got != want:
            different[op.name] = (got, want)
    assert different == {}


def _enums() -> dict[str, list[tuple[int, str]]]:
    """Our enums by name: (value, keyword), sorted."""
    found: dict[str, list[tuple[int, str]]] = {}
    for module in (tt, ttng, tti, layout_enums):
        for name, cases in vars(module).items():
            if isinstance(cases, type) and issubclass(cases, OdsEnum) and len(cases):
                found[name] = sorted((int(case), case.keyword) for case in cases)
    found["AddrSpace"] = sorted(
        (int(case), name.lower()) for name, case in AddrSpace.__members__.items()
    )
    return found


def test_enums() -> None:
    include = _include()
    theirs = {}
    for path in sorted(include.rglob("IR/*.td")):
        theirs |= read_enum_cases(path.read_text())
    assert len(theirs) == 21
    assert _enums() == {
        name: sorted((value, word) for _, value, word in cases) for name, cases in theirs.items()
    }


ATTRIBUTES = {
    "tt": ["Triton/IR/TritonTypes.td", "Triton/IR/TritonAttrDefs.td"],
    "ttg": ["TritonGPU/IR/TritonGPUTypes.td", "TritonGPU/IR/TritonGPUAttrDefs.td"],
    "ttng": [
        "TritonNvidiaGPU/IR/TritonNvidiaGPUTypes.td",
        "TritonNvidiaGPU/IR/TritonNvidiaGPUAttrDefs.td",
    ],
    "gluon": ["Gluon/IR/GluonAttrDefs.td"],
}


def _attributes(dialect: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in ATTRIBUTES[dialect]:
        found |= read_attributes((_include() / name).read_text())
    # Written only inside other attributes, as a bare keyword.
    found.pop("blockRepOrder", None)
    return found


@pytest.mark.parametrize("dialect", ATTRIBUTES)
def test_types_and_attributes(dialect: str) -> None:
    """Mnemonics of types and attributes with a syntax of their own."""
    ours = {attr.name.removeprefix(f"{dialect}.") for attr in DIALECTS[dialect][1].attributes}
    assert ours == set(_attributes(dialect)), dialect


@pytest.mark.parametrize("dialect", ["ttg", "ttng"])
def test_parameters_of_encodings(dialect: str) -> None:
    """What is written between the braces of an encoding whose parameters are named there."""
    for mnemonic, parameters in _attributes(dialect).items():
        ours = known_parameters(f"{dialect}.{mnemonic}")
        if ours is None:
            continue
        # A linear layout is written as its bases, one parameter for each of its inputs.
        theirs = set(parameters) - {"linearLayout", "linearComponent", "ctaLayout"}
        theirs -= {"intervals", "paddings"}  # which stand before the braces
        extra = ours - theirs
        assert theirs <= ours, mnemonic
        assert extra <= {"rank", "offset", "block", "order", "shape"}, mnemonic
