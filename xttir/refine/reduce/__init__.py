"""Delta reduction: the smallest module that still shows what a large one shows.

`reduce_text` shrinks a module as long as a predicate on its text holds. `predicates` has those that
are asked for most: a pass still changes the meaning or still crashes, a check still fails, a
command still succeeds.
"""

from xttir.refine.reduce.search import Reduction, reduce_text

__all__ = ["Reduction", "reduce_text"]
