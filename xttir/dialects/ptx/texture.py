"""Textures, surfaces and video instructions: PTX ISA 9.1, sections 9.7.10, 9.7.11 and 9.7.18."""

from __future__ import annotations

from xttir.dialects.ptx.instruction import Instruction, instruction
from xttir.dialects.ptx.words import CACHE, VECTOR, words

_GEOMETRY = words("1d 2d 3d a1d a2d cube acube 2dms a2dms")
_TYPES = words("b8 b16 b32 b64 u32 s32 u64 s64 f16 f16x2 f32")
_CLAMP = words("trap clamp zero")
_QUERY = words(
    "width height depth channel_data_type channel_order normalized_coords "
    "force_unnormalized_coords filter_mode addr_mode_0 addr_mode_1 addr_mode_2 array_size "
    "num_mipmap_levels num_samples memory_layout b32 level"
)
_VIDEO = words("u32 s32 sat add min max b0 b1 b2 b3 h0 h1")


@instruction(_GEOMETRY, _TYPES, VECTOR, "base level grad", pair=True)
class TexOp(Instruction):
    name = "ptx.tex"


@instruction(_GEOMETRY, _TYPES, VECTOR, "r g b a", pair=True)
class Tld4Op(Instruction):
    name = "ptx.tld4"


@instruction(_QUERY)
class TxqOp(Instruction):
    name = "ptx.txq"


@instruction("texref samplerref surfref")
class IstypepOp(Instruction):
    name = "ptx.istypep"


@instruction(_GEOMETRY, _TYPES, VECTOR, CACHE, _CLAMP, "b")
class SuldOp(Instruction):
    name = "ptx.suld"


@instruction(_GEOMETRY, _TYPES, VECTOR, CACHE, _CLAMP, "b p", defines=0)
class SustOp(Instruction):
    name = "ptx.sust"


@instruction(_GEOMETRY, _TYPES, _CLAMP, "b p add min max and or", defines=0)
class SuredOp(Instruction):
    name = "ptx.sured"


@instruction(_QUERY)
class SuqOp(Instruction):
    name = "ptx.suq"


@instruction(_VIDEO)
class VaddOp(Instruction):
    name = "ptx.vadd"


@instruction(_VIDEO)
class VsubOp(Instruction):
    name = "ptx.vsub"


@instruction(_VIDEO)
class VabsdiffOp(Instruction):
    name = "ptx.vabsdiff"


@instruction(_VIDEO)
class VminOp(Instruction):
    name = "ptx.vmin"


@instruction(_VIDEO)
class VmaxOp(Instruction):
    name = "ptx.vmax"


@instruction(_VIDEO, "clamp wrap")
class VshlOp(Instruction):
    name = "ptx.vshl"


@instruction(_VIDEO, "clamp wrap")
class VshrOp(Instruction):
    name = "ptx.vshr"


@instruction(_VIDEO, "po shr7 shr15")
class VmadOp(Instruction):
    name = "ptx.vmad"


@instruction(_VIDEO, "eq ne lt le gt ge")
class VsetOp(Instruction):
    name = "ptx.vset"


@instruction(_VIDEO)
class Vadd2Op(Instruction):
    name = "ptx.vadd2"


@instruction(_VIDEO)
class Vsub2Op(Instruction):
    name = "ptx.vsub2"


@instruction(_VIDEO)
class Vavrg2Op(Instruction):
    name = "ptx.vavrg2"


@instruction(_VIDEO)
class Vabsdiff2Op(Instruction):
    name = "ptx.vabsdiff2"


@instruction(_VIDEO)
class Vmin2Op(Instruction):
    name = "ptx.vmin2"


@instruction(_VIDEO)
class Vmax2Op(Instruction):
    name = "ptx.vmax2"


@instruction(_VIDEO, "eq ne lt le gt ge")
class Vset2Op(Instruction):
    name = "ptx.vset2"


@instruction(_VIDEO)
class Vadd4Op(Instruction):
    name = "ptx.vadd4"


@instruction(_VIDEO)
class Vsub4Op(Instruction):
    name = "ptx.vsub4"


@instruction(_VIDEO)
class Vavrg4Op(Instruction):
    name = "ptx.vavrg4"


@instruction(_VIDEO)
class Vabsdiff4Op(Instruction):
    name = "ptx.vabsdiff4"


@instruction(_VIDEO)
class Vmin4Op(Instruction):
    name = "ptx.vmin4"


@instruction(_VIDEO)
class Vmax4Op(Instruction):
    name = "ptx.vmax4"


@instruction(_VIDEO, "eq ne lt le gt ge")
class Vset4Op(Instruction):
    name = "ptx.vset4"


TEXTURE = [
    TexOp,
    Tld4Op,
    TxqOp,
    IstypepOp,
    SuldOp,
    SustOp,
    SuredOp,
    SuqOp,
    VaddOp,
    VsubOp,
    VabsdiffOp,
    VminOp,
    VmaxOp,
    VshlOp,
    VshrOp,
    VmadOp,
    VsetOp,
    Vadd2Op,
    Vsub2Op,
    Vavrg2Op,
    Vabsdiff2Op,
    Vmin2Op,
    Vmax2Op,
    Vset2Op,
    Vadd4Op,
    Vsub4Op,
    Vavrg4Op,
    Vabsdiff4Op,
    Vmin4Op,
    Vmax4Op,
    Vset4Op,
]
