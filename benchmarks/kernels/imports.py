"""What every Triton script pays with no tool around it."""

import torch  # noqa: F401
import triton  # noqa: F401
