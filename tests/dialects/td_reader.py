"""A small reader of ODS (`.td`) files: ops with their operands, attributes, results and regions.

It reads what Triton's dialects use of TableGen, with regular expressions:
`def X : Base<"name", ...>` and `let arguments/results/regions/assemblyFormat = ...`; enums, and the
parameters of attributes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

# Constraints of operands and results; everything else among the arguments is an attribute.
_VALUE = re.compile(
    r"^(Arg<|Optional<|Variadic<|AnyTypeOf<|RankedTensorOf<|Res<|[IF]\d+$|AnyType$|I1Tensor$"
    r"|AnySignlessIntegerOrIndex$|TT_(Ptr|PtrType|PtrLike|PtrTensor|Tensor|Type|BoolLike|IntLike|FloatLike"
    r"|I64Like|I32Like|IntTensor|FloatTensor|FpIntTensor|TensorDescType|AnyTensorDescType)$"
    r"|TTG_(MemDescType|TensorOrMemDesc|AsyncToken)$)",
)


@dataclass
class Argument:
    """One `Constraint:$name` of a dag. `constraint` is the text before the colon."""

    name: str
    constraint: str

    @property
    def is_value(self) -> bool:
        return _VALUE.match(self.constraint) is not None

    @property
    def inner(self) -> str:
        """The constraint inside `Arg<..., "", [...]>`."""
        match = re.match(r"Arg<(.*?),\s*\"", self.constraint)
        return match.group(1) if match else self.constraint

    @property
    def is_optional(self) -> bool:
        """May be left out: `Optional<>`, `OptionalAttr<>`, `UnitAttr`, ..."""
        return self.inner.startswith(
            ("Optional<", "OptionalAttr<", "DefaultValuedOptionalAttr<"),
        ) or (self.inner == "UnitAttr")

    @property
    def is_variadic(self) -> bool:
        return self.inner.startswith("Variadic<")

    @property
    def has_default(self) -> bool:
        return self.inner.startswith("DefaultValued")


@dataclass
class OdsOp:
    """An op definition. `cls` is the C++ class name, `name` the part after the dialect's."""

    cls: str
    name: str
    traits: str
    operands: list[Argument] = field(default_factory=list)
    attributes: list[Argument] = field(default_factory=list)
    results: list[Argument] = field(default_factory=list)
    regions: list[Argument] = field(default_factory=list)
    assembly_format: str | None = None


def _split(text: str) -> list[str]:
    """`text` at the commas outside of brackets and strings."""
    parts, depth, start, quoted = [], 0, 0, False
    for i, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in "<[({":
            depth += 1
        elif char in ">])}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _closing(text: str, start: int) -> int:
    """The position after the bracket that closes the one at `start`."""
    pairs = {"(": ")", "{": "}", "<": ">"}
    opening, closing, depth = text[start], pairs[text[start]], 0
    for i in range(start, len(text)):
        depth += (text[i] == opening) - (text[i] == closing)
        if depth == 0:
            return i + 1
    raise ValueError(f"unbalanced {opening}")


def _dag(body: str, field_name: str) -> list[Argument]:
    """The arguments of `let <field_name> = (ins ...)`."""
    match = re.search(rf"let\s+{field_name}\s*=\s*\(", body)
    if match is None:
        return []
    start = match.end() - 1
    text = body[start + 1 : _closing(body, start) - 1]
    text = re.sub(r"^\s*(ins|outs|region)\b", "", text)
    found = []
    for part in _split(text):
        constraint, colon, name = part.rpartition(":$")
        if not colon:
            constraint, name = part, ""
        found.append(Argument(name.strip(), re.sub(r"\s+", " ", constraint).strip()))
    return found


def _as_string(match: re.Match[str]) -> str:
    """A code block as a string on one line, its quotes and braces out of the way."""
    return match.group(1) + '"' + " ".join(match.group(2).split()) + '"'


def _format(body: str) -> str | None:
    match = re.search(r'let\s+assemblyFormat\s*=\s*"([^"]*)"', body)
    return match.group(1) if match else None


def read_ops(path: Path, bases: str = r"\w+_Op") -> list[OdsOp]:
    """The ops that a `.td` file defines from a base class such as `TT_Op<"load", [...]>`."""
    text = path.read_text()
    # Formats are kept as strings; other code (descriptions, C++) is dropped.
    text = re.sub(r"(assemblyFormat\s*=\s*)\[\{(.*?)\}\]", _as_string, text, flags=re.DOTALL)
    text = re.sub(r"\[\{.*?\}\]", '""', text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    ops = []
    for match in re.finditer(rf"^def\s+(\w+)\s*:\s*{bases}\s*<\s*\"([\w.]+)\"", text, re.MULTILINE):
        header_end = text.index("{", match.end())
        body = text[header_end : _closing(text, header_end)]
        cls = re.sub(r"^[A-Za-z]+_", "", match.group(1))
        arguments = _dag(body, "arguments")
        ops.append(
            OdsOp(
                cls,
                match.group(2),
                text[match.end() : header_end],
                [a for a in arguments if a.is_value],
                [a for a in arguments if not a.is_value],
                _dag(body, "results"),
                _dag(body, "regions"),
                _format(body),
            ),
        )
    return ops


def read_enum_cases(text: str) -> dict[str, list[tuple[str, int, str]]]:
    """`I32EnumAttr` (or `I32BitEnumAttr`) definitions: name to (case, value, keyword)."""
    enums = {}
    for match in re.finditer(
        r"I32(?:Bit)?EnumAttr<\s*\"(\w+)\"\s*,\s*\"[^\"]*\"\s*,\s*\[(.*?)\]>",
        text,
        re.DOTALL,
    ):
        cases = re.findall(
            r"I32(?:Bit)?EnumAttrCase<\"(\w+)\",\s*(\w+),\s*\"(\w+)\">", match.group(2)
        )
        enums[match.group(1)] = [(name, int(value, 0), word) for name, value, word in cases]
    return enums


def read_attributes(text: str) -> dict[str, list[str]]:
    """Attributes and types with a mnemonic: mnemonic to the names of their parameters."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"\[\{.*?\}\]", '""', text, flags=re.DOTALL)
    found: dict[str, list[str]] = {}
    for match in re.finditer(r"^def\s+\w+\s*:", text, re.MULTILINE):
        end = text.find("\ndef ", match.end())
        body = text[match.start() : end if end >= 0 else len(text)]
        named = re.search(r'let mnemonic = "([\w.]+)";', body) or re.search(
            r'(?:_TypeDef|TritonTypeDef)<"\w+",\s*"([\w.]+)"', body
        )
        if named is None:
            named = re.search(r'EnumAttr<\w+Dialect\w*,\s*\w+,\s*"(\w+)">', body)
        if named is not None:
            found[named.group(1)] = [a.name for a in _dag(body, "parameters") if a.name]
    return found
