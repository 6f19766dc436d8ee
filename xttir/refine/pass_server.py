"""Runs passes in processes that may crash: `python -m xttir.refine.pass_server`.

Reads one JSON request a line: {"text", "file", "passes": [textual pipelines], "nested"}. Each is
served in a fork, which answers with one line a pass, {"pipeline", "text", "located"}, as soon as it
has run, and a last one: {"done"}, {"error", "kind"} or, when the fork died, {"crash"}. With
`nested`, MLIR's own dump is written too, for passes that run pipelines inside: {"dump"}.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
from typing import Any, TextIO

from xttir.refine.passes import PassLibrary


def main() -> None:
    """Serve requests until standard input ends."""
    library = PassLibrary()
    for line in sys.stdin:
        _serve(library, json.loads(line))


def _serve(library: PassLibrary, request: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="xttir-pass-") as folder:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _child(library, request, folder)
        _, status = os.waitpid(pid, 0)
        errors = _read(f"{folder}/stderr")
        if request.get("nested") and os.path.exists(f"{folder}/dump"):
            _answer(sys.stdout, dump=_read(f"{folder}/dump"))
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = signal.Signals(number).name
            _answer(sys.stdout, crash=name, stderr=errors)
        elif os.WEXITSTATUS(status) not in (0, 3):
            _answer(sys.stdout, crash=f"exit status {os.WEXITSTATUS(status)}", stderr=errors)
        elif os.WEXITSTATUS(status) == 3:
            _answer(sys.stdout, error=_read(f"{folder}/error"), stderr=errors)
        else:
            _answer(sys.stdout, done=True, stderr=errors)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _answer(stream: TextIO, **data: Any) -> None:
    stream.write(json.dumps(data) + "\n")
    stream.flush()


def _child(library: PassLibrary, request: dict[str, Any], folder: str) -> None:
    """Never returns. Leaves by libc's exit, so that MLIR's dump is written to its end."""
    errors = os.open(f"{folder}/stderr", os.O_WRONLY | os.O_CREAT)
    os.dup2(errors, 2)
    code = 0
    try:
        _run(library, request, folder)
    except RuntimeError as error:
        with open(f"{folder}/error", "w", encoding="utf-8") as stream:
            stream.write(str(error))
        code = 3
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        code = 4
    sys.stdout.flush()
    ctypes.CDLL(None).exit(code)


def _run(library: PassLibrary, request: dict[str, Any], folder: str) -> None:
    nested = request.get("nested", False)
    if nested:
        os.environ["MLIR_ENABLE_DUMP"] = "1"
        os.environ["MLIR_DUMP_PATH"] = f"{folder}/dump"
    path = f"{folder}/module.mlir"
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(request["text"])
    ir = library.module.ir
    context = library.context()
    try:
        module = ir.parse_mlir_module(path, context)
    except RuntimeError as error:
        raise RuntimeError(f"parse: {error}") from None
    module.context = context
    for text in ("", *request["passes"]):
        pipeline = ""
        if text:
            manager = ir.pass_manager(context)
            if nested:
                manager.enable_debug()
            if not library.add(manager, text):
                raise RuntimeError(f"pipeline: {text}")
            pipeline = manager.get_pipeline_str()
            try:
                manager.run(module, "xttir")
            except RuntimeError as error:
                raise RuntimeError(f"pass: {text}: {error}") from None
        located = module.str().replace(path, request.get("file") or "module.mlir")
        _answer(sys.stdout, pipeline=pipeline, text=module.str_nodebug(), located=located)


if __name__ == "__main__":
    main()
