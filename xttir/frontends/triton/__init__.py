"""Run Triton programs with no GPU: compile, intercept launches, give `device="cuda"` a CPU."""

from xttir.frontends.triton.install import install, uninstall

__all__ = ["install", "uninstall"]
