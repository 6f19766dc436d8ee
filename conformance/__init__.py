"""Real programs run under `xttir sanitize`: how many agree with their references, and why not.

Nothing of the programs' authors lives here: every script takes an installed package or the path of
a checkout. See `docs/how-to/benchmark.md`.
"""
