"""Text to module to text: what we print, Triton reads, and as the same module."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.conftest import shared_root
from tests.dialects.triton_oracle import Oracle, normal, normal_locations
from xttir.dialects.syntax.printer import TTPrinter, short_text
from xttir.frontends.mlir import parse_module

DATA = sorted((Path(__file__).parent.parent / "data/dialects").glob("*.ttir"))
SHARED = shared_root()
CORPUS = sorted((SHARED / "corpus/triton").glob("*/*/*.loc.mlir")) if SHARED else []
# TTGIR takes most of the time and exercises the same code.
CORPUS_PARAMS = [
    pytest.param(
        path,
        id=f"{path.parts[-3]}/{path.name}",
        marks=[pytest.mark.slow] if path.name.startswith("ttgir") else [],
    )
    for path in CORPUS
]
FORMS = [(False, False), (True, False), (False, True), (True, True)]


def printed(module: ModuleOp, generic: bool = False, locations: bool = False) -> str:
    stream = StringIO()
    TTPrinter(stream, print_generic_format=generic, print_debuginfo=locations).print_op(module)
    return stream.getvalue() + "\n"


@pytest.mark.parametrize("path", DATA, ids=lambda p: p.name)
def test_own_text_reads_back(path: Path) -> None:
    module = parse_module(path.read_text(), path.name)
    for generic, locations in FORMS[1:3]:
        text = printed(module, generic, locations)
        again = parse_module(text, path.name)
        assert normal(printed(again, generic, locations)) == normal(text)
        assert module.is_structurally_equivalent(again)


@pytest.mark.parametrize(
    "path",
    [p for p in DATA if "triton38" not in p.name],
    ids=lambda p: p.name,
)
def test_triton_reads_our_text(path: Path, oracle: Oracle) -> None:
    text = path.read_text()
    oracle.need(text)
    module = parse_module(text, path.name)
    want = normal(oracle.parse(text))
    assert want is not None
    for generic, locations in FORMS:
        assert normal(oracle.parse(printed(module, generic, locations))) == want
    if "generic" not in path.name:
        ours = oracle.parse_with_locations(printed(module, locations=True))
        assert normal_locations(ours) == normal_locations(oracle.parse_with_locations(text))


LAYOUTS = """\
#lin = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64], [128]], block = []}>
#b = #ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#c = #ttg.blocked<{sizePerThread = [2, 1], threadsPerWarp = [16, 2], warpsPerCTA = [1, 4], order = [0, 1]}>
#slice = #ttg.slice<{dim = 0, parent = #b}>
#s = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>
#t = #ttng.tensor_memory_encoding<blockM = 64, blockN = 64, colStride = 1>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @k(%x: tensor<32xf32, #slice>, %y: tensor<16x32xf32, #b>, %z: tensor<256xf32, #lin>) {
    %0 = ttg.convert_layout %y : tensor<16x32xf32, #b> -> tensor<16x32xf32, #c>
    %1 = ttg.local_alloc : () -> !ttg.memdesc<16x32xf16, #s, #smem, mutable>
    %2 = ttng.tmem_alloc : () -> !ttg.memdesc<64x64xf32, #t, #ttng.tensor_memory, mutable>
    tt.return
  }
}
"""  # noqa: E501


def test_layouts_get_names_as_triton_gives_them(oracle: Oracle) -> None:
    module = parse_module(LAYOUTS)
    text = short_text(module)
    assert parse_module(text).is_structurally_equivalent(module)
    head, body = text.split("builtin.module")
    names = [line.split(" = ")[0] for line in head.splitlines()]
    assert names == ["#blocked", "#slice", "#linear", "#blocked1", "#shared", "#tmem"]
    assert "<{" not in body
    want = normal(oracle.parse(LAYOUTS))
    assert want is not None
    assert normal(oracle.parse(text)) == want


@pytest.mark.parametrize("path", DATA, ids=lambda p: p.name)
def test_short_text_reads_back(path: Path) -> None:
    module = parse_module(path.read_text(), path.name)
    assert parse_module(short_text(module)).is_structurally_equivalent(module)


def test_triton_3_8_gives_the_same_module_as_3_9() -> None:
    """The cache hints of 3.8 become those of 3.9; both forms of each release agree."""
    folder = DATA[0].parent

    def hints(name: str) -> list[str]:
        module = parse_module((folder / name).read_text(), name)
        return [
            f"{op.name} {op.properties.get('cachePolicy')}"
            for op in module.walk()
            if op.name in ("tt.load", "tt.store")
        ]

    want = hints("everything.triton39.ttir")
    assert "tt.load #tt.cache_policy<cache_modifier = cg, eviction_policy = evict_last>" in want
    for name in ("39.generic", "38", "38.generic"):
        assert hints(f"everything.triton{name}.ttir") == want


@pytest.mark.parametrize("path", CORPUS_PARAMS)
def test_corpus(path: Path, oracle: Oracle) -> None:
    text = path.read_text()
    oracle.need(text)
    module = parse_module(text, path.name)
    ours = oracle.parse_with_locations(printed(module, locations=True))
    assert ours is not None
    assert normal_locations(ours) == normal_locations(oracle.parse_with_locations(text))


@pytest.mark.parametrize("path", CORPUS_PARAMS)
def test_corpus_generic(path: Path) -> None:
    """The generic form that Triton prints is the same module as the pretty form."""
    pretty = parse_module(path.read_text(), "a")
    generic = parse_module(Path(str(path).replace(".loc.", ".generic.")).read_text(), "b")
    assert pretty.is_structurally_equivalent(generic)


def test_a_corpus_is_there() -> None:
    if not CORPUS:
        pytest.skip("no corpus (set XTTIR_SHARED)")
    assert len(CORPUS) > 100
