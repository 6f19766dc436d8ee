"""A dialect of tiles for xttir, as a package of its own."""
