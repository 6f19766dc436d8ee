"""What every command imports sooner or later; see `tests.clean_process`."""

import torch  # noqa: F401
import triton  # noqa: F401

import xttir.interp.executor
import xttir.tools.sanitize  # noqa: F401
