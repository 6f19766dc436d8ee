"""What op implementations read from attributes."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute


def integer(attr: Attribute) -> int:
    """The number in an integer attribute: a bool, an axis, or the stored form of an enum."""
    assert isinstance(attr, IntegerAttr)
    return attr.value.data
