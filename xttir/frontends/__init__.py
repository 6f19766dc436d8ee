"""Readers: MLIR text, Triton launches. Import only `dialects`."""
