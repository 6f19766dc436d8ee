"""Events of barriers and groups of `ttg` and `gpu`."""
