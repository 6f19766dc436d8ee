"""Encodings of `ttg`, `ttng` and `gluon` tensors and memory descriptors, by name and parameters.

Names are those of Triton's `TritonGPUAttrDefs.td`. Here they parse, print and compare; their
parameters can be read, and giving them a meaning is left to those who need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from xttir.dialects.layouts.structs import StructAttr, parse_entries, print_entries


@irdl_attr_definition
class BlockedEncodingAttr(StructAttr):
    """sizePerThread, threadsPerWarp, warpsPerCTA, order [, CGALayout]."""

    name = "ttg.blocked"
    parameters_: DictionaryAttr


@irdl_attr_definition
class SliceEncodingAttr(StructAttr):
    """dim, parent: `parent` with dimension `dim` taken out."""

    name = "ttg.slice"
    parameters_: DictionaryAttr


@irdl_attr_definition
class LinearEncodingAttr(StructAttr):
    """register, lane, warp, block: bases of a linear layout."""

    name = "ttg.linear"
    parameters_: DictionaryAttr


@irdl_attr_definition
class GenericLinearEncodingAttr(StructAttr):
    """As `linear`, but warp bases may be swizzled and the layout need only be surjective."""

    name = "ttg.generic_linear"
    parameters_: DictionaryAttr


@irdl_attr_definition
class DotOperandEncodingAttr(StructAttr):
    """opIdx, parent [, kWidth]: operand 0 or 1 of a dot whose result has layout `parent`."""

    name = "ttg.dot_op"
    parameters_: DictionaryAttr


@irdl_attr_definition
class NvidiaMmaEncodingAttr(StructAttr):
    """versionMajor, versionMinor, warpsPerCTA, instrShape [, CGALayout]."""

    name = "ttg.nvidia_mma"
    parameters_: DictionaryAttr


@irdl_attr_definition
class AMDMfmaEncodingAttr(StructAttr):
    """Result layout of AMD's mfma instructions."""

    name = "ttg.amd_mfma"
    parameters_: DictionaryAttr


@irdl_attr_definition
class AMDWmmaEncodingAttr(StructAttr):
    """Result layout of AMD's wmma instructions."""

    name = "ttg.amd_wmma"
    parameters_: DictionaryAttr


@irdl_attr_definition
class SwizzledSharedEncodingAttr(StructAttr):
    """vec, perPhase, maxPhase, order [, CGALayout]."""

    name = "ttg.swizzled_shared"
    parameters_: DictionaryAttr


@irdl_attr_definition
class AMDRotatingSharedEncodingAttr(StructAttr):
    """vec, perPhase, maxPhase, order [, CGALayout]."""

    name = "ttg.amd_rotating_shared"
    parameters_: DictionaryAttr


@irdl_attr_definition
class NVMMASharedEncodingAttr(StructAttr):
    """swizzlingByteWidth, transposed, elementBitWidth [, fp4Padded, CGALayout]."""

    name = "ttg.nvmma_shared"
    parameters_: DictionaryAttr


@irdl_attr_definition
class PartitionedSharedEncodingAttr(StructAttr):
    """numPartitions, numGroups, partitionDim, partitionLayout."""

    name = "ttg.partitioned_shared"
    parameters_: DictionaryAttr


@irdl_attr_definition
class SharedLinearEncodingAttr(StructAttr):
    """`<{offset = [...], block = [...]}, alignment = 16>`."""

    name = "ttg.shared_linear"
    parameters_: DictionaryAttr
    alignment: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            bases = parse_entries(parser, parser.Delimiter.BRACES)
            parser.parse_punctuation(",")
            parser.parse_keyword("alignment")
            parser.parse_punctuation("=")
            return [bases, IntAttr(parser.parse_integer(allow_boolean=False))]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            with printer.in_braces():
                print_entries(printer, self.parameters_)
            printer.print_string(f", alignment = {self.alignment.data}")


@irdl_attr_definition
class PaddedSharedEncodingAttr(StructAttr):
    """`<[128:+4] {order = [1, 0], shape = [64, 32]}>`: after 128 elements come 4 of padding."""

    name = "ttg.padded_shared"
    parameters_: DictionaryAttr
    intervals: ArrayAttr[IntAttr]
    paddings: ArrayAttr[IntAttr]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        intervals: list[IntAttr] = []
        paddings: list[IntAttr] = []

        def pair() -> None:
            intervals.append(IntAttr(parser.parse_integer(allow_boolean=False)))
            parser.parse_punctuation(":")
            parser.parse_punctuation("+")
            paddings.append(IntAttr(parser.parse_integer(allow_boolean=False)))

        with parser.in_angle_brackets():
            parser.parse_comma_separated_list(parser.Delimiter.SQUARE, pair)
            entries = parse_entries(parser, parser.Delimiter.BRACES)
        return [entries, ArrayAttr(intervals), ArrayAttr(paddings)]

    def print_parameters(self, printer: Printer) -> None:
        pairs = zip(self.intervals, self.paddings, strict=True)
        text = ", ".join(f"{interval.data}:+{padding.data}" for interval, padding in pairs)
        with printer.in_angle_brackets():
            printer.print_string(f"[{text}] ")
            with printer.in_braces():
                print_entries(printer, self.parameters_)


@irdl_attr_definition
class SharedMemorySpaceAttr(ParametrizedAttribute):
    """Shared memory, as the memory space of a descriptor."""

    name = "ttg.shared_memory"


@irdl_attr_definition
class TensorMemorySpaceAttr(ParametrizedAttribute):
    """Tensor memory (Blackwell), as the memory space of a descriptor."""

    name = "ttng.tensor_memory"


@irdl_attr_definition
class TensorMemoryEncodingAttr(StructAttr):
    """blockM, blockN, colStride [, CGALayout, twoCTAs, fp4Padded]."""

    name = "ttng.tensor_memory_encoding"
    BRACES: ClassVar[bool] = False
    parameters_: DictionaryAttr


@irdl_attr_definition
class TensorMemoryScalesEncodingAttr(StructAttr):
    """[CGALayout, blockRepOrder]."""

    name = "ttng.tensor_memory_scales_encoding"
    BRACES: ClassVar[bool] = False
    parameters_: DictionaryAttr


@irdl_attr_definition
class AutoEncodingAttr(ParametrizedAttribute):
    """A layout to be inferred from neighbouring ops."""

    name = "gluon.auto_encoding"


@irdl_attr_definition
class CoalescedEncodingAttr(ParametrizedAttribute):
    """A layout to be chosen for loads and stores."""

    name = "gluon.coalesced_encoding"


TTG_ENCODINGS = (
    BlockedEncodingAttr,
    SliceEncodingAttr,
    LinearEncodingAttr,
    GenericLinearEncodingAttr,
    DotOperandEncodingAttr,
    NvidiaMmaEncodingAttr,
    AMDMfmaEncodingAttr,
    AMDWmmaEncodingAttr,
    SwizzledSharedEncodingAttr,
    AMDRotatingSharedEncodingAttr,
    NVMMASharedEncodingAttr,
    PartitionedSharedEncodingAttr,
    SharedLinearEncodingAttr,
    PaddedSharedEncodingAttr,
    SharedMemorySpaceAttr,
)
SHARED_ENCODINGS = (
    SwizzledSharedEncodingAttr,
    AMDRotatingSharedEncodingAttr,
    NVMMASharedEncodingAttr,
    PartitionedSharedEncodingAttr,
    SharedLinearEncodingAttr,
    PaddedSharedEncodingAttr,
)
"""Layouts of shared memory."""
TTNG_ENCODINGS = (
    TensorMemorySpaceAttr,
    TensorMemoryEncodingAttr,
    TensorMemoryScalesEncodingAttr,
)
GLUON_ENCODINGS = (AutoEncodingAttr, CoalescedEncodingAttr)
