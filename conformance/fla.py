"""`python -m conformance.fla`: operations of fla-core against torch, forward and backward."""

import sys

from conformance.packages import main

TABLES = ("fla_recurrent", "fla_attention", "fla_modules")

if __name__ == "__main__":
    sys.exit(main("fla", TABLES))
