"""Traces built by hand have the shapes that `events` promises."""

from xttir.analyses import events as ev
from xttir.analyses.build import Kernel


def test_multicast_reaches_every_block():
    k = Kernel(threads=2, ctas=2, cluster=2)
    full, x, g = k.barrier("full"), k.shared("x", 64), k.tensor("g", 64)
    copy = k.agent(0, cta=1).copy(x, g, full, multicast=[0, 1])
    assert isinstance(copy, ev.AsyncOp)
    assert isinstance(copy.completion, ev.ByBytes)
    assert copy.lanes.tolist() == [2]
    assert copy.completion.cta.tolist() == [[0, 1]]
    assert copy.footprints[1].cta.tolist() == [[0, 1]]
    assert copy.footprints[1].starts.tolist() == [[x.start, x.start]]


def test_everybody_exits_once():
    k = Kernel(threads=3)
    k.agent(1).exit()
    k.agent(2).blocked("nothing comes")
    exits = [e for e in k.trace().events if isinstance(e, ev.Exit)]
    assert [e.lanes.tolist() for e in exits] == [[1], [0]]
