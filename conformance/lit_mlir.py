"""The lit tests of public Triton repositories: does xttir read and write what Triton does?

python -m conformance.lit_mlir CHECKOUT... [--failures KIND] [--only WORDS]

Every `test/**/*.mlir` of a checkout is split at `// -----`. Triton's own parser judges each module
(`conformance.triton_reader`; cached beside the checkout), then xttir reads those that Triton
accepts and prints them, pretty and generic, and Triton reads both prints: the module must be the
same as that of the original. Modules that Triton rejects because an op does not verify, xttir must
reject. Ops of unknown dialects are allowed where the test's RUN line allows them.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from conformance import triton_reader
from conformance.triton_reader import Reader, Verdict
from xttir.diagnostics import InputError
from xttir.dialects.context import make_context
from xttir.dialects.syntax.printer import TTPrinter
from xttir.frontends.mlir import read_module

_SPLIT = re.compile(r"^// -----.*$", re.MULTILINE)
_UNREGISTERED = re.compile(r"^// *RUN:.*-allow-unregistered-dialect", re.MULTILINE)


@dataclass(frozen=True)
class Test:
    """One module of a lit test; `name` is `path:line` of its first line."""

    name: str
    text: str
    unregistered: bool


@dataclass
class Outcome:
    """What became of one module. `kind` is "ok" or what went wrong, `why` the first message."""

    test: Test
    verdict: Verdict
    kind: str
    why: str = ""


@dataclass
class Table:
    """The outcomes of all modules."""

    outcomes: list[Outcome] = field(default_factory=list)
    parse_seconds: float = 0.0

    def of(self, *verdicts: str) -> list[Outcome]:
        """Those to which Triton gave one of `verdicts`."""
        return [o for o in self.outcomes if o.verdict.verdict in verdicts]

    def __str__(self) -> str:
        accepted = self.of(triton_reader.ACCEPTED)
        parsed = [o for o in accepted if o.kind not in ("parse", "crash")]
        equal = [o for o in parsed if o.kind == "ok"]
        counts = Counter(o.verdict.verdict for o in self.outcomes)
        lines = [
            f"{len(self.outcomes)} modules; Triton: "
            + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()),
            f"accepted by Triton, xttir parses      {_share(parsed, accepted)}",
            f"    and prints the same module        {_share(equal, accepted)}",
        ]
        for verdict in (triton_reader.VERIFIER, triton_reader.ATTRIBUTE, triton_reader.SYNTAX):
            all_ = self.of(verdict)
            lines.append(
                f"rejected by Triton ({verdict:9}), xttir too {_share(_ok(all_), all_)}",
            )
        lines.append(f"xttir's parser: {self.parse_seconds:.1f} s of CPU")
        return "\n".join(lines)

    def failures(self, kinds: list[str], examples: int) -> str:
        """What failed, grouped by the message, the most frequent first."""
        groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
        for outcome in self.outcomes:
            if outcome.kind != "ok" and (not kinds or outcome.kind in kinds):
                groups[outcome.kind, _pattern(outcome.why)].append(outcome)
        lines = []
        for (kind, why), found in sorted(groups.items(), key=lambda g: -len(g[1])):
            lines.append(f"{len(found):5} {kind}: {why}")
            lines += (f"        {o.test.name}  {o.why[:200]}" for o in found[:examples])
        return "\n".join(lines)


def _ok(outcomes: list[Outcome]) -> list[Outcome]:
    return [o for o in outcomes if o.kind == "ok"]


def _share(part: list[Outcome], whole: list[Outcome]) -> str:
    return f"{len(part):5} of {len(whole):5}  {100 * len(part) / max(1, len(whole)):6.2f}%"


def _pattern(message: str) -> str:
    """`message` without the names and numbers that differ from case to case."""
    return re.sub(r"%[\w.$-]+|\b\d+\b|@\w+", "_", message)[:110]


def modules(checkout: Path) -> Iterator[Test]:
    """The modules of a checkout's lit tests."""
    for path in sorted((checkout / "test").rglob("*.mlir")):
        whole = path.read_text()
        unregistered = _UNREGISTERED.search(whole) is not None
        start = 0
        ends = [*_SPLIT.finditer(whole)]
        for end in [*(m.span() for m in ends), (len(whole), len(whole))]:
            text = whole[start : end[0]]
            if re.search(r"^\s*[^\s/]", text, re.MULTILINE):
                line = whole.count("\n", 0, start) + 1
                yield Test(f"{path.relative_to(checkout)}:{line}", text, unregistered)
            start = end[1]


def check(test: Test, reader: Reader, table: Table) -> Outcome:
    """Read `test` with xttir and compare with Triton."""
    verdict = reader.read(test.text, test.unregistered)
    started = time.process_time()
    try:
        module = read_module(make_context(test.unregistered), test.text, "m.mlir")
    except InputError as error:
        if verdict.accepted:
            at = getattr(error, "location", None)
            where = f" (at {at.line}:{at.column})" if at else ""
            return Outcome(test, verdict, "parse", f"{error.what}{where}")
        return Outcome(test, verdict, "ok", str(error))
    except Exception as error:  # whatever it is, it is a defect
        return Outcome(test, verdict, "crash", f"{type(error).__name__}: {error}")
    finally:
        table.parse_seconds += time.process_time() - started
    if not verdict.accepted:
        return Outcome(test, verdict, f"accepts-{verdict.verdict}", verdict.message)
    for form, generic in (("print", False), ("print-generic", True)):
        stream = StringIO()
        try:
            TTPrinter(stream, print_generic_format=generic).print_op(module)
        except Exception as error:  # as above
            return Outcome(test, verdict, form, f"{type(error).__name__}: {error}")
        again = reader.read(stream.getvalue() + "\n", test.unregistered)
        if not again.accepted:
            return Outcome(test, verdict, form, f"Triton rejects: {again.message}")
        if again.digest != verdict.digest:
            why = _difference(test, stream.getvalue() + "\n", reader)
            return Outcome(test, verdict, form, f"differs: {why}")
    return Outcome(test, verdict, "ok")


def _difference(test: Test, ours: str, reader: Reader) -> str:
    want = (reader.print(test.text, test.unregistered) or "").splitlines()
    got = (reader.print(ours, test.unregistered) or "").splitlines()
    for a, b in zip(want, got, strict=False):
        if a != b:
            first = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
            first = max(0, first - 30)
            return f"{a[first : first + 90]!r} became {b[first : first + 90]!r}"
    return f"{len(want)} lines became {len(got)}"


def main() -> int:
    """Exit code 0 when 99% parse and print back, and 90% are rejected."""
    parser = argparse.ArgumentParser(prog="python -m conformance.lit_mlir")
    parser.add_argument("checkouts", type=Path, nargs="+", help="folders that hold `test/`")
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument(
        "--failures", nargs="*", metavar="KIND", help="list failures (of these kinds) by message"
    )
    parser.add_argument("--examples", type=int, default=2, help="tests named per message (2)")
    args = parser.parse_args()
    wanted = [word for word in args.only.split(",") if word]
    table = Table()
    for checkout in args.checkouts:
        with Reader(checkout / "lit_mlir.verdicts.json") as reader:
            for test in modules(checkout):
                if not wanted or any(word in test.name for word in wanted):
                    table.outcomes.append(check(test, reader, table))
    if args.failures is not None:
        print(table.failures(args.failures, args.examples))
    print(table)
    accepted = table.of(triton_reader.ACCEPTED)
    rejected = table.of(triton_reader.VERIFIER)
    good = len(_ok(accepted)) >= 0.99 * len(accepted) and len(_ok(rejected)) >= 0.9 * len(rejected)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
