"""The dialect for xDSL's drivers and for everything that parses here."""

from xdsl.ir import Dialect
from xdsl.universe import Universe


def _dialect() -> Dialect:
    from tilekit.dialect import TILEKIT

    return TILEKIT


UNIVERSE = Universe(all_dialects={"tilekit": _dialect})
