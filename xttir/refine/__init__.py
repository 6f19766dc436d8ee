"""Whether two programs are the same function: compiler passes validated stage by stage."""
