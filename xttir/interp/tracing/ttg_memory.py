"""Events of `ttg` ops on shared memory."""
