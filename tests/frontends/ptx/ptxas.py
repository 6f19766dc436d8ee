"""What ptxas makes of a text: the bytes of code, constants and variables, without debug data."""

from __future__ import annotations

import functools
import re
import shutil
import struct
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

_KEPT = (".text", ".nv.constant", ".nv.shared", ".nv.global")


@functools.cache
def assemblers() -> tuple[str, ...]:
    """The ptxas on PATH, and those that Triton brings along (for newer PTX)."""
    found = [path] if (path := shutil.which("ptxas")) else []
    spec = find_spec("triton")
    if spec is not None and spec.origin:
        folder = Path(spec.origin).parent / "backends" / "nvidia" / "bin"
        found += [str(folder / name) for name in ("ptxas-blackwell", "ptxas")]
    return tuple(path for path in found if Path(path).exists())


def assemble(text: str, folder: Path, name: str) -> dict[str, bytes]:
    """Section name -> contents (size for those without). Skips where no ptxas takes the version."""
    target = re.search(r"\.target\s+(\w+)", text)
    assert target is not None
    path, out = folder / f"{name}.ptx", folder / f"{name}.cubin"
    path.write_text(text)
    message = ""
    for ptxas in assemblers():
        command = [ptxas, f"-arch={target.group(1)}", str(path), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return _sections(out.read_bytes())
        message = done.stdout + done.stderr
        if "Unsupported .version" not in message and "is not defined for option" not in message:
            raise AssertionError(f"{name}: {message}")
    pytest.skip(f"no ptxas for this version and target: {message.strip()[:80]}")


def _sections(data: bytes) -> dict[str, bytes]:
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    start = headers[names_at][4]
    found: dict[str, bytes] = {}
    for header in headers:
        name = data[start + header[0] : data.index(b"\0", start + header[0])].decode()
        if name.startswith(_KEPT):
            nothing = header[1] == 8
            contents = data[header[4] : header[4] + header[5]]
            found[name] = str(header[5]).encode() if nothing else contents
    return found
