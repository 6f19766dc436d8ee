"""IRDL definitions of the tile IRs: syntax, types and verifiers. Imports nothing else of xttir."""
