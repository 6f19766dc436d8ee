"""A text that is equal for modules which differ in nothing that a run can see.

Where the elements of tensors lie, in which order constants stand, what values are called, and where
and how often a value is computed that is the same everywhere, changes nothing in what a kernel
does: stages that differ in that alone need not run again. An op without effects, which cannot fail
and whose result hangs on its operands alone, is written where its value is first needed, once for
equal operands. Works on the text that Triton prints without locations; what is not understood stays
as it is, so that texts come out different at worst.
"""

from __future__ import annotations

import itertools
import re

_VALUE = re.compile(r"%[\w$.-]+")
_CONSTANT = re.compile(r"^\s*(%[\w$.-]+) = arith\.constant (.*)$")
_CONVERT = re.compile(r"^\s*(%[\w$.-]+) = ttg\.convert_layout (%[\w$.-]+(?:#\d+)?) : ")
_DEFINED = re.compile(r"(%[\w$.-]+)(?::\d+)?(?= = )|(%[\w$.-]+)(?=: )")
_SCHEDULE = (
    r"loop\.stage|loop\.cluster|tt\.flatten|tt\.num_stages|tt\.latency|tt\.self_latency|"
    r"tt\.scheduled_max_stage|tt\.loop_unroll_factor|tt\.disallow_acc_multi_buffer"
)
_IGNORED = re.compile(rf"(?:, )?\b(?:{_SCHEDULE})\b(?: = [^,}}]+)?")
_IGNORED_OF_MODULE = re.compile(r', "ttng\.two-ctas" = \w+')
"""For verifiers alone."""
_BELOW_TENSORS = re.compile(r"\b(?:ttg|ttng|nvws|gluon)\.(?!convert_layout\b)")
_ENCODING = re.compile(r"(tensor<[^<>#,]*(?:<[^<>#,]*>)?), #\w+>")
"""A tensor type whose encoding is an alias."""

_OPERATION = re.compile(r"^\s*(%[\w$.-]+) = ([a-z_]+\.[a-z_0-9]+)\b(.*)$")
_DIVIDE = ("divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi")
_MAY_FAIL = frozenset(f"arith.{name}" for name in _DIVIDE)
"""Ops whose place matters, but for divisors that are a number above 0."""
_DIVISOR = re.compile(r", %<(?:dense<)?[1-9]\d*(?:>| :)")
_SAME_EVERYWHERE = frozenset(
    (
        "tt.addptr",
        "tt.bitcast",
        "tt.broadcast",
        "tt.clampf",
        "tt.dot",
        "tt.dot_scaled",
        "tt.expand_dims",
        "tt.fp_to_fp",
        "tt.get_num_programs",
        "tt.get_program_id",
        "tt.int_to_ptr",
        "tt.join",
        "tt.make_range",
        "tt.mulhiui",
        "tt.precise_divf",
        "tt.precise_sqrt",
        "tt.ptr_to_int",
        "tt.reshape",
        "tt.splat",
        "tt.trans",
        "tt.unsplat",
        "ttg.memdesc_reshape",
        "ttg.memdesc_trans",
        "ub.poison",
    )
)
_INDEX = re.compile(r"\[%<(\d+) : i32>\] : !ttg\.memdesc<(\d+)x")
"""A part of memory whose number is known, and how many there are."""
_PROMISE = re.compile(r"\btt\.(?:divisibility|contiguity|constancy)\b")
"""What is promised of a value is checked where it is computed."""


class _Unknown(Exception):
    """A value is used in the text before its definition."""


def meaning(text: str) -> str:
    """The normalised text of a module. Modules whose values have scopes that text does not show
    (partitions of `warp_specialize`) are given back as they are."""
    if "warp_specialize" in text:
        return text
    aliases = dict(re.findall(r"^(#[\w.]+) = (.*)$", text, re.MULTILINE))
    body = [
        _without_encodings(line)
        for line in text.splitlines()
        if line and not line.startswith(("#", "//"))
    ]
    plain = not any(_BELOW_TENSORS.search(line) for line in body if not line.startswith("module"))
    writer = _Writer()
    try:
        for line in body:
            if line.startswith("module"):
                line = "module {" if plain else _IGNORED_OF_MODULE.sub("", line)
            if "{" in line:
                line = _IGNORED.sub("", line).replace(" {}", "")
            writer.add(_expanded(line, aliases))
    except _Unknown:
        return text
    return writer.text()


class _Writer:
    """Takes the lines of a module and writes its normal form.

    While lines are taken, a value is called by its number, and what has equal text is one value;
    when they are written, by the order in which the text names them.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, str] = {}
        """Values by the text of the op that makes them."""
        self.texts: dict[str, str] = {}
        """The same the other way around."""
        self.lines: list[str] = []
        self.numbers = itertools.count()

    def add(self, line: str) -> None:
        constant = _CONSTANT.match(line)
        if constant is not None:
            self.names[constant[1]] = f"%<{constant[2]}>"
            return
        convert = _CONVERT.match(line)
        if convert is not None:
            self.names[convert[1]] = self._used(convert[2])
            return
        operation = _OPERATION.match(line)
        if operation is not None and not line.endswith("{"):
            result, name, rest = operation.groups()
            rest = self._used(rest)
            if _same_everywhere(name, rest):
                self.names[result] = self._value(f"{name}{rest}")
                return
        self.lines.append(self._renamed(line.strip()))

    def _value(self, text: str) -> str:
        """What the value is called that the op `text` makes."""
        value = self.values.get(text)
        if value is None:
            value = self.values[text] = f"%{next(self.numbers)}"
            self.texts[value] = text
        return value

    def _used(self, text: str) -> str:
        """`text` with the values that it uses."""
        try:
            return _VALUE.sub(lambda match: self.names[match[0]], text)
        except KeyError as error:
            raise _Unknown from error

    def _renamed(self, line: str) -> str:
        """`line` with its values, of which it may define some."""
        defined: dict[int, str] = {}
        if " = " in line or line.startswith(("^", "tt.func")):
            defined = {m.start(): m[1] or m[2] for m in _DEFINED.finditer(line)}

        def rename(match: re.Match[str]) -> str:
            name = match[0]
            # Two definitions of one name, in regions side by side, are two values.
            if defined.get(match.start()) == name:
                self.names[name] = f"%{next(self.numbers)}"
            elif name not in self.names:
                raise _Unknown
            return self.names[name]

        return _VALUE.sub(rename, line)

    def text(self) -> str:
        """The normal form."""
        out: list[str] = []
        final: dict[str, str] = {}
        numbers = itertools.count()

        def write(line: str) -> None:
            """`line`, after what it needs."""
            for value in _VALUE.findall(line):
                if value not in final and value in self.texts:
                    needed.append(value)
            while needed:
                value = needed[-1]
                if value in final:
                    needed.pop()
                    continue
                text = self.texts[value]
                missing = [v for v in _VALUE.findall(text) if v in self.texts and v not in final]
                if missing:
                    needed.extend(missing)
                    continue
                needed.pop()
                put = _VALUE.sub(called, text)
                final[value] = f"%{next(numbers)}"
                out.append(f"{final[value]} = {put}")
            out.append(_VALUE.sub(called, line))

        def called(match: re.Match[str]) -> str:
            name = match[0]
            if name not in final:
                final[name] = f"%{next(numbers)}"
            return final[name]

        needed: list[str] = []
        for line in self.lines:
            write(line)
        return "\n".join(out)


def _same_everywhere(name: str, rest: str) -> bool:
    """Whether the op `name`, of operands and types `rest`, gives the same wherever it stands, and
    has no effect but that."""
    if name in _MAY_FAIL:
        return _DIVISOR.search(rest) is not None
    if name == "ttg.memdesc_index":
        index = _INDEX.search(rest)
        return index is not None and int(index[1]) < int(index[2])
    if not (name in _SAME_EVERYWHERE or name.startswith(("arith.", "math."))):
        return False
    return _PROMISE.search(rest) is None


def _without_encodings(line: str) -> str:
    """Types `tensor<64xf32, #blocked>` as `tensor<64xf32>`."""
    line = _ENCODING.sub(r"\1>", line)
    if ", #" not in line:
        return line
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
