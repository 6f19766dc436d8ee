"""`python -m xttir`: the same as the `xttir` command."""

import sys

from xttir.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
