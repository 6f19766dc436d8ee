"""A text that is equal for modules which differ in nothing that a run can see.

Where the elements of tensors lie, in which order constants stand and what values are called changes
nothing in what a kernel does: stages that differ in that alone need not run again. Works on the
text that Triton prints without locations; what is not understood stays as it is, so that texts come
out different at worst.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

_VALUE = re.compile(r"%[\w$.-]+")
_CONSTANT = re.compile(r"^\s*(%[\w$.-]+) = arith\.constant (.*)$")
_CONVERT = re.compile(r"^\s*(%[\w$.-]+) = ttg\.convert_layout (%[\w$.-]+(?:#\d+)?) : ")
_DEFINED = re.compile(r"(%[\w$.-]+)(?::\d+)?(?= = )|(%[\w$.-]+)(?=: )")
_SCHEDULE = (
    r"loop\.stage|loop\.cluster|tt\.flatten|tt\.num_stages|tt\.latency|tt\.self_latency|"
    r"tt\.scheduled_max_stage|tt\.loop_unroll_factor|tt\.disallow_acc_multi_buffer"
)
_IGNORED = re.compile(rf"(?:, )?\b(?:{_SCHEDULE})\b(?: = [^,}}]+)?")
_BELOW_TENSORS = re.compile(r"\b(?:ttg|ttng|nvws|gluon)\.(?!convert_layout\b)")


def meaning(text: str) -> str:
    """The normalised text of a module. Modules whose values have scopes that text does not show
    (partitions of `warp_specialize`) are given back as they are."""
    if "warp_specialize" in text:
        return text
    aliases = dict(re.findall(r"^(#[\w.]+) = (.*)$", text, re.MULTILINE))
    body = [line for line in text.splitlines() if line and not line.startswith(("#", "//"))]
    plain = not any(_BELOW_TENSORS.search(line) for line in body if not line.startswith("module"))
    names: dict[str, str] = {}
    numbers = itertools.count()
    out: list[str] = []
    for line in body:
        if plain and line.startswith("module"):
            line = "module {"
        line = _without_encodings(line)
        line = _IGNORED.sub("", line)
        line = _expanded(line, aliases)
        constant = _CONSTANT.match(line)
        if constant is not None:
            names[constant[1]] = f"%<{constant[2]}>"
            continue
        convert = _CONVERT.match(line)
        if convert is not None:
            value, hash_, number = convert[2].partition("#")
            names[convert[1]] = names.get(value, value) + hash_ + number
            continue
        out.append(_renamed(line.strip(), names, numbers))
    return "\n".join(out)


def _renamed(line: str, names: dict[str, str], numbers: Iterator[int]) -> str:
    """`line` with its values called by the order in which they are defined."""
    defined = {m.start(): m[1] or m[2] for m in _DEFINED.finditer(line)}
    if " = " not in line and not line.startswith(("^", "tt.func")):
        defined = {}

    def rename(match: re.Match[str]) -> str:
        name = match[0]
        # Two definitions of one name, in regions side by side, are two values.
        if defined.get(match.start()) == name or name not in names:
            names[name] = f"%{next(numbers)}"
        return names[name]

    return _VALUE.sub(rename, line).replace(" {}", "")


def _without_encodings(line: str) -> str:
    """Types `tensor<64xf32, #blocked>` as `tensor<64xf32>`."""
    out: list[str] = []
    at = 0
    while True:
        start = line.find("tensor<", at)
        if start < 0:
            out.append(line[at:])
            return "".join(out)
        end = _close(line, start + len("tensor<"))
        inner = line[start + len("tensor<") : end]
        cut = _comma(inner)
        out.append(line[at:start] + "tensor<" + (inner if cut < 0 else inner[:cut]) + ">")
        at = end + 1


def _close(text: str, at: int) -> int:
    """The position of the `>` that closes what was opened before `at`."""
    depth = 1
    while at < len(text):
        if text[at] == "<":
            depth += 1
        elif text[at] == ">" and text[at - 1] != "-":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return len(text)


def _comma(inner: str) -> int:
    depth = 0
    for n, c in enumerate(inner):
        depth += (c in "<({[") - (c in ">)}]")
        if c == "," and depth == 0:
            return n
    return -1


def _expanded(line: str, aliases: dict[str, str]) -> str:
    """Aliases of attributes replaced by what they stand for: their names are numbered."""
    if "#" not in line or not aliases:
        return line
    return re.sub(r"#[A-Za-z_][\w.]*", lambda m: aliases.get(m[0], m[0]), line)
