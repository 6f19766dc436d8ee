"""Where many rows meet at many places, one place stands for all those that the same rows cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xttir.analyses import races
from xttir.analyses.ground import Ground
from xttir.analyses.modules import verify_module
from xttir.frontends.mlir import parse_module
from xttir.interp.tracing import Launch

Starts = st.lists(st.lists(st.integers(0, 6), min_size=2, max_size=2), min_size=1, max_size=6)


@given(Starts, Starts)
def test_examples_show_every_pair_of_rows_that_meets(a: list[list[int]], b: list[list[int]]):
    """Rows of two pieces of two places each; of the atoms that both cover."""
    ground = Ground("bytes")
    x, y = (ground.add(2 * np.array(rows, np.int64), 4) for rows in (a, b))
    ground.cut()
    atoms = np.intersect1d(x.atoms, y.atoms)
    (gx, rx), (gy, ry) = ground.within(x, atoms), ground.within(y, atoms)
    if not len(gx):
        return
    some = ground.examples(gx, rx, gy, ry)
    seen = {_at(g, gx, rx, gy, ry) for g in np.unique(gx)}
    shown = [(int(ground.atom_of[g]), *_at(g, gx, rx, gy, ry)) for g in some]
    assert {kind[1:] for kind in shown} == seen
    assert len(set(shown)) == len(shown)


def _at(granule: int, gx, rx, gy, ry) -> tuple[frozenset[int], frozenset[int]]:
    return frozenset(rx[gx == granule].tolist()), frozenset(ry[gy == granule].tolist())


SHIFT = """
#l = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#r = #ttg.linear<{register = [], lane = [[2], [4], [8], [16], [32]], warp = [[64], [1]], block = []}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32, ttg.shared = 512 : i32,
                   ttg.target = "cuda:90"} {
tt.func public @k() {
  %v = arith.constant dense<0> : tensor<128xi32, #l>
  %m = ttg.local_alloc {allocation.offset = 0 : i32} : () -> !ttg.memdesc<128xi32, #s, #smem, mutable>
  ttg.local_store %v, %m : tensor<128xi32, #l> -> !ttg.memdesc<128xi32, #s, #smem, mutable>
  BARRIER
  %w = ttg.local_load %m : !ttg.memdesc<128xi32, #s, #smem, mutable> -> tensor<128xi32, #r>
  ttg.local_store %v, %m : tensor<128xi32, #l> -> !ttg.memdesc<128xi32, #s, #smem, mutable>
  tt.return
}
}
"""  # noqa: E501


@pytest.mark.parametrize("barrier", ["", "ttg.barrier local"])
def test_verdicts_do_not_depend_on_how_many_pairs_are_looked_at(
    barrier: str, monkeypatch: pytest.MonkeyPatch
):
    module = parse_module(SHIFT.replace("BARRIER", barrier), "k.mlir", verify=False)
    told = []
    for most in (races.MOST_PAIRS, 0):
        monkeypatch.setattr(races, "MOST_PAIRS", most)
        report = verify_module(module, Launch("k", (1, 1, 1)))
        told.append([(f.kind, f.locations) for f in report.faults])
    assert told[0] == told[1]
    assert told[0]
