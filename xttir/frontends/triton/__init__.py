"""Run Triton programs with no GPU: compile, intercept launches, give `device="cuda"` a CPU."""
