"""Commands: `xttir`, `xttir-opt`, the pytest plugin. Thin layers over the library."""
