"""A cache key of the installed Triton from the state of its files instead of their contents.

Triton keys its cache by hashing every file it compiles with, libtriton's hundreds of megabytes
included: half a second in every process that launches anything. Sizes and modification times tell
versions and local edits apart just as well. Kernels compiled here have keys of their own, so the
cache that GPU runs use stays as it is.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache

_PARTS = ("compiler", "backends", "language", "runtime", "_C")


@cache
def triton_key() -> str:
    """Stands for the installed Triton: version, and path, size and time of its files."""
    import triton

    root = os.path.dirname(os.path.abspath(triton.__file__))
    state = hashlib.sha256()
    for part in _PARTS:
        for path, folders, files in os.walk(os.path.join(root, part)):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            for name in sorted(files):
                if name.endswith((".py", ".so", ".pyd", ".bc")):
                    full = os.path.join(path, name)
                    info = os.stat(full)
                    entry = f"{os.path.relpath(full, root)}:{info.st_size}:{info.st_mtime_ns}\n"
                    state.update(entry.encode())
    return f"{triton.__version__}-{state.hexdigest()}"
