"""xttir: GPU tile IRs with a meaning you can run, check and prove."""

__version__ = "0.1.0"
