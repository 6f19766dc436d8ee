"""CPU time and memory of `xttir sanitize` against other ways to run Triton with no GPU."""
