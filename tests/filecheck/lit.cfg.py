"""lit configuration: `lit tests/filecheck` runs the `RUN:` lines of the files here."""

import os
import sys
from importlib.util import find_spec

import lit.formats

config.name = "xttir"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir", ".ttir", ".ttgir", ".ptx"]  # noqa: F821
config.test_source_root = os.path.dirname(__file__)  # noqa: F821

if find_spec("triton") is not None:
    config.available_features.add("triton")  # noqa: F821

# The tools of the environment that lit runs in come first.
path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
config.environment["PATH"] = path  # noqa: F821
for name in ("HOME", "PYTHONPATH", "VIRTUAL_ENV"):
    if name in os.environ:
        config.environment[name] = os.environ[name]  # noqa: F821
