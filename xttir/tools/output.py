"""Where a report goes: text to standard error, or any format to a file or standard output.

A report on standard output is alone there: what the script prints goes to standard error then.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from xttir.tools import json_report, render, sarif
from xttir.tools.options import UsageError
from xttir.tools.report import Report


@dataclass
class Output:
    """Where the report goes, and in which form. Used as a context manager around the run.

    `file`: a path, "-" for standard output, "" for the usual place (text: standard error, other
    formats: standard output).
    """

    format: str
    file: str
    quiet: bool = False
    color: str = "auto"

    def __post_init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._stream: TextIO | None = None

    def __enter__(self) -> Output:
        """Open the file before anything runs, so that a wrong path costs no run."""
        if self.file and self.file != "-":
            try:
                self._stream = self._stack.enter_context(open(self.file, "w", encoding="utf-8"))
            except OSError as error:
                raise UsageError(f"cannot write '{self.file}': {error.strerror}") from None
        elif self.file == "-" or self.format != "text":
            self._stream = self._stack.enter_context(_private_stdout())
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def write(self, report: Report) -> None:
        """Write the report: to its place, and as text to standard error as well."""
        sys.stdout.flush()
        if self._stream is not None:
            self._stream.write(self._rendered(report, self._stream))
            self._stream.flush()
            if self.format == "text":
                return
        # pytest has shown faults and summary in its own output already.
        clean = report.exit_code == 0 and not report.faults
        if not (self.quiet and clean) and not report.tests:
            text = self._text(report, sys.stderr)
            with contextlib.suppress(OSError):
                print(text, end="", file=sys.stderr, flush=True)

    def _rendered(self, report: Report, stream: TextIO) -> str:
        if self.format == "json":
            return json.dumps(json_report.object_json(report), indent=2) + "\n"
        if self.format == "sarif":
            return json.dumps(sarif.sarif(report), indent=2) + "\n"
        return self._text(report, stream)

    def _text(self, report: Report, stream: TextIO) -> str:
        color = render.wants_color(stream, self.color)
        return render.styled(render.report_lines(report), color)


@contextlib.contextmanager
def _private_stdout() -> Iterator[TextIO]:
    """Standard output for the report alone; what the script prints goes to standard error."""
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:
        raise UsageError("standard output is closed") from None
    os.dup2(2, 1)
    with open(saved, "w", encoding="utf-8") as stream:
        try:
            yield stream
        finally:
            sys.stdout.flush()
            os.dup2(saved, 1)
