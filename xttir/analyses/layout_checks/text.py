"""What the layouts of a module's ops hang on, as lines of its text.

MLIR reads the types of an op's operands and results out of the op's own text. So what is judged of
the layouts of an op hangs on its text without the names of values, and a module all of whose lines
stand in modules without a fault has none either: it need not be read to see that.
"""

from __future__ import annotations

import re

_VALUE = re.compile(r"%[\w$.-]+(?:[#:]\d+)?")
_NUMBERS = re.compile(r"arith\.constant dense<[^<>]*> : ")
_SCHEDULE = re.compile(
    r"(?:, )?\b(?:loop\.stage|loop\.cluster|tt\.latency|tt\.self_latency) = [^,}]+"
)
_ALIAS = re.compile(r"#[A-Za-z_][\w$]*(?![\w.$<])")
_DEFINITION = re.compile(r"^(#[A-Za-z_][\w$]*) = (?!loc\()(.*)$", re.MULTILINE)


def lines_with_layouts(text: str) -> frozenset[str]:
    """The distinct lines of a module that Triton printed without locations which name a layout:
    values without their names, aliases written out, numbers left out, the end of an op with
    regions together with its beginning."""
    aliases: dict[str, str] = {}

    def written(match: re.Match[str]) -> str:
        return aliases.get(match[0], match[0])

    for name, definition in _DEFINITION.findall(text):
        aliases[name] = _ALIAS.sub(written, definition)
    found: set[str] = set()
    opened: list[str] = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        ends, begins = line.lstrip().startswith("}"), line.endswith("{")
        if not (ends or begins or "#" in line):
            continue
        line = _VALUE.sub("%", line.strip())
        if "{" in line:
            line = _SCHEDULE.sub("", line).replace("{, ", "{").replace(" {}", "")
        if ends:
            line = (opened.pop() if opened else "") + line
        if begins:
            opened.append(line)
        found.add(line)
    return frozenset(
        _ALIAS.sub(written, _NUMBERS.sub("arith.constant : ", line))
        for line in found
        if "#" in line
    )
