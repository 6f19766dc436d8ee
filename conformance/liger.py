"""`python -m conformance.liger`: every operation of liger-kernel against torch, both directions."""

import sys

from conformance.packages import main

TABLES = ("liger_layers", "liger_losses")

if __name__ == "__main__":
    sys.exit(main("liger", TABLES))
