"""Triton's enums (TritonAttrDefs.td, TritonAttrEnums.td, TritonTypeEnums.td).

Each is an `I32EnumAttr`: generic IR shows the integer, pretty IR the keyword.
"""

from xttir.dialects.ods import OdsEnum


class MemSemantic(OdsEnum):
    RELAXED = 1, "relaxed"
    ACQUIRE = 2, "acquire"
    RELEASE = 3, "release"
    ACQUIRE_RELEASE = 4, "acq_rel"


class MemSyncScope(OdsEnum):
    GPU = 1, "gpu"
    CTA = 2, "cta"
    SYSTEM = 3, "sys"


class CacheModifier(OdsEnum):
    NONE = 1, "none"
    CA = 2, "ca"
    CG = 3, "cg"
    WB = 4, "wb"
    CS = 5, "cs"
    WT = 6, "wt"
    CV = 7, "cv"


class EvictionPolicy(OdsEnum):
    NORMAL = 1, "evict_normal"
    EVICT_FIRST = 2, "evict_first"
    EVICT_LAST = 3, "evict_last"


class PaddingOption(OdsEnum):
    PAD_ZERO = 1, "zero"
    PAD_NAN = 2, "nan"


class RMWOp(OdsEnum):
    AND = 1, "and"
    OR = 2, "or"
    XOR = 3, "xor"
    ADD = 4, "add"
    FADD = 5, "fadd"
    MAX = 6, "max"
    MIN = 7, "min"
    UMAX = 8, "umax"
    UMIN = 9, "umin"
    XCHG = 10, "exch"


class DescriptorReduceKind(OdsEnum):
    ADD = 1, "add"
    MIN = 2, "min"
    MAX = 3, "max"
    INC = 4, "inc"
    DEC = 5, "dec"
    AND = 6, "and"
    OR = 7, "or"
    XOR = 8, "xor"


class ProgramIDDim(OdsEnum):
    X = 0, "x"
    Y = 1, "y"
    Z = 2, "z"


class RoundingMode(OdsEnum):
    RTZ = 0, "rtz"
    RTNE = 1, "rtne"


class PropagateNan(OdsEnum):
    NONE = 0, "none"
    ALL = 0xFFFF, "all"


class InputPrecision(OdsEnum):
    TF32 = 0, "tf32"
    TF32x3 = 1, "tf32x3"
    IEEE = 2, "ieee"
    BF16x3 = 3, "bf16x3"
    BF16x6 = 4, "bf16x6"


class ScaleDotElemType(OdsEnum):
    E4M3 = 0, "e4m3"
    E5M2 = 1, "e5m2"
    E2M3 = 2, "e2m3"
    E3M2 = 3, "e3m2"
    E2M1 = 4, "e2m1"
    BF16 = 5, "bf16"
    FP16 = 6, "fp16"


class PtrAddrSpace(OdsEnum):
    DESCRIPTOR = 0, "descriptor"
    GLOBAL = 1, "global"
    CONSTANT = 4, "constant"
