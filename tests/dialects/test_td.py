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

from tests.dialects.td_reader import Argument, OdsOp, read_enum_cases, read_ops
from xttir.dialects import gluon, tt, ttg, ttng
from xttir.dialects.ods import OdsEnum

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
}


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
    assert {op.name: op.__name__ for op in ours.operations} == theirs


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


def test_enums() -> None:
    include = _include()
    theirs = {}
    for name in (
        "Triton/IR/TritonAttrDefs.td",
        "Triton/IR/TritonAttrEnums.td",
        "Triton/IR/TritonTypeEnums.td",
    ):
        theirs |= read_enum_cases((include / name).read_text())
    assert len(theirs) == 13
    ours = {
        name: sorted((int(case), case.keyword) for case in cases)
        for name, cases in vars(tt).items()
        if isinstance(cases, type) and issubclass(cases, OdsEnum) and cases is not OdsEnum
    }
    assert ours == {
        name: sorted((value, word) for _, value, word in cases) for name, cases in theirs.items()
    }


def test_types_and_attributes() -> None:
    """Mnemonics of types and attributes with a syntax of their own."""
    include = _include()
    files = {
        "tt": ["Triton/IR/TritonTypes.td", "Triton/IR/TritonAttrDefs.td"],
        "ttg": ["TritonGPU/IR/TritonGPUTypes.td", "TritonGPU/IR/TritonGPUAttrDefs.td"],
        "ttng": [
            "TritonNvidiaGPU/IR/TritonNvidiaGPUTypes.td",
            "TritonNvidiaGPU/IR/TritonNvidiaGPUAttrDefs.td",
        ],
        "gluon": ["Gluon/IR/GluonAttrDefs.td"],
    }
    for dialect, names in files.items():
        found = set()
        for name in names:
            text = (include / name).read_text()
            found |= set(re.findall(r'let mnemonic = "([\w.]+)";', text))
            found |= set(re.findall(r'_TypeDef<"\w+", "([\w.]+)"', text))
            found |= set(re.findall(r'TritonTypeDef<"\w+", "(\w+)"', text))
            found |= set(re.findall(r'EnumAttr<\w+Dialect\w*,\s*\w+,\s*"(\w+)">', text))
        # Written only inside other attributes, as a bare keyword.
        found -= {"blockRepOrder"}
        ours = {attr.name.removeprefix(f"{dialect}.") for attr in DIALECTS[dialect][1].attributes}
        assert ours == found, dialect
