"""Events of TMA copies."""
