"""The `tt` dialect: Triton's tile IR before layouts (TTIR).

Op classes bear the names that Triton's ODS files give them (`tt.LoadOp`, `tt.AddPtrOp`); operands,
results, regions and attributes keep their ODS names in snake case (`operands` of `tt.call` is
`args_` here, its results `res`). The rules come from the `.td` files that Triton installs under
`triton/include/triton/Dialect/Triton/IR` and from the verifiers in its `lib/Dialect/Triton/IR`.
"""

from xdsl.ir import Dialect

from xttir.dialects.tt.compute import (
    DotOp as DotOp,
)
from xttir.dialects.tt.compute import (
    DotScaledOp as DotScaledOp,
)
from xttir.dialects.tt.compute import (
    GetNumProgramsOp as GetNumProgramsOp,
)
from xttir.dialects.tt.compute import (
    GetProgramIdOp as GetProgramIdOp,
)
from xttir.dialects.tt.compute import (
    HistogramOp as HistogramOp,
)
from xttir.dialects.tt.compute import (
    MakeRangeOp as MakeRangeOp,
)
from xttir.dialects.tt.compute import (
    ReduceOp as ReduceOp,
)
from xttir.dialects.tt.compute import (
    ReduceReturnOp as ReduceReturnOp,
)
from xttir.dialects.tt.compute import (
    ScanOp as ScanOp,
)
from xttir.dialects.tt.compute import (
    ScanReturnOp as ScanReturnOp,
)
from xttir.dialects.tt.elementwise import (
    AddPtrOp as AddPtrOp,
)
from xttir.dialects.tt.elementwise import (
    ApproxDivFOp as ApproxDivFOp,
)
from xttir.dialects.tt.elementwise import (
    BitcastOp as BitcastOp,
)
from xttir.dialects.tt.elementwise import (
    ClampFOp as ClampFOp,
)
from xttir.dialects.tt.elementwise import (
    ElementwiseInlineAsmOp as ElementwiseInlineAsmOp,
)
from xttir.dialects.tt.elementwise import (
    ExternElementwiseOp as ExternElementwiseOp,
)
from xttir.dialects.tt.elementwise import (
    FpToFpOp as FpToFpOp,
)
from xttir.dialects.tt.elementwise import (
    IntToPtrOp as IntToPtrOp,
)
from xttir.dialects.tt.elementwise import (
    MapElementwiseOp as MapElementwiseOp,
)
from xttir.dialects.tt.elementwise import (
    MapElementwiseReturnOp as MapElementwiseReturnOp,
)
from xttir.dialects.tt.elementwise import (
    MulhiUIOp as MulhiUIOp,
)
from xttir.dialects.tt.elementwise import (
    PreciseDivFOp as PreciseDivFOp,
)
from xttir.dialects.tt.elementwise import (
    PreciseSqrtOp as PreciseSqrtOp,
)
from xttir.dialects.tt.elementwise import (
    PtrToIntOp as PtrToIntOp,
)
from xttir.dialects.tt.enums import (
    CacheModifier as CacheModifier,
)
from xttir.dialects.tt.enums import (
    DescriptorReduceKind as DescriptorReduceKind,
)
from xttir.dialects.tt.enums import (
    EvictionPolicy as EvictionPolicy,
)
from xttir.dialects.tt.enums import (
    InputPrecision as InputPrecision,
)
from xttir.dialects.tt.enums import (
    MemSemantic as MemSemantic,
)
from xttir.dialects.tt.enums import (
    MemSyncScope as MemSyncScope,
)
from xttir.dialects.tt.enums import (
    PaddingOption as PaddingOption,
)
from xttir.dialects.tt.enums import (
    ProgramIDDim as ProgramIDDim,
)
from xttir.dialects.tt.enums import (
    PropagateNan as PropagateNan,
)
from xttir.dialects.tt.enums import (
    PtrAddrSpace as PtrAddrSpace,
)
from xttir.dialects.tt.enums import (
    RMWOp as RMWOp,
)
from xttir.dialects.tt.enums import (
    RoundingMode as RoundingMode,
)
from xttir.dialects.tt.enums import (
    ScaleDotElemType as ScaleDotElemType,
)
from xttir.dialects.tt.function import (
    AssertOp as AssertOp,
)
from xttir.dialects.tt.function import (
    CallOp as CallOp,
)
from xttir.dialects.tt.function import (
    FuncOp as FuncOp,
)
from xttir.dialects.tt.function import (
    PrintOp as PrintOp,
)
from xttir.dialects.tt.function import (
    ReturnOp as ReturnOp,
)
from xttir.dialects.tt.memory import (
    AtomicCASOp as AtomicCASOp,
)
from xttir.dialects.tt.memory import (
    AtomicLoadOp as AtomicLoadOp,
)
from xttir.dialects.tt.memory import (
    AtomicPollOp as AtomicPollOp,
)
from xttir.dialects.tt.memory import (
    AtomicRMWOp as AtomicRMWOp,
)
from xttir.dialects.tt.memory import (
    AtomicStoreOp as AtomicStoreOp,
)
from xttir.dialects.tt.memory import (
    DescriptorGatherOp as DescriptorGatherOp,
)
from xttir.dialects.tt.memory import (
    DescriptorLoadOp as DescriptorLoadOp,
)
from xttir.dialects.tt.memory import (
    DescriptorReduceOp as DescriptorReduceOp,
)
from xttir.dialects.tt.memory import (
    DescriptorScatterOp as DescriptorScatterOp,
)
from xttir.dialects.tt.memory import (
    DescriptorStoreOp as DescriptorStoreOp,
)
from xttir.dialects.tt.memory import (
    GridDependencyLaunchDependentsOp as GridDependencyLaunchDependentsOp,
)
from xttir.dialects.tt.memory import (
    GridDependencyWaitOp as GridDependencyWaitOp,
)
from xttir.dialects.tt.memory import (
    LoadOp as LoadOp,
)
from xttir.dialects.tt.memory import (
    MakeTensorDescOp as MakeTensorDescOp,
)
from xttir.dialects.tt.memory import (
    StoreOp as StoreOp,
)
from xttir.dialects.tt.shape import (
    BroadcastOp as BroadcastOp,
)
from xttir.dialects.tt.shape import (
    CatOp as CatOp,
)
from xttir.dialects.tt.shape import (
    ExpandDimsOp as ExpandDimsOp,
)
from xttir.dialects.tt.shape import (
    GatherOp as GatherOp,
)
from xttir.dialects.tt.shape import (
    JoinOp as JoinOp,
)
from xttir.dialects.tt.shape import (
    ReshapeOp as ReshapeOp,
)
from xttir.dialects.tt.shape import (
    SplatOp as SplatOp,
)
from xttir.dialects.tt.shape import (
    SplitOp as SplitOp,
)
from xttir.dialects.tt.shape import (
    TransOp as TransOp,
)
from xttir.dialects.tt.shape import (
    UnsplatOp as UnsplatOp,
)
from xttir.dialects.tt.types import (
    ANY_TYPE as ANY_TYPE,
)
from xttir.dialects.tt.types import (
    BOOL_LIKE as BOOL_LIKE,
)
from xttir.dialects.tt.types import (
    F32_LIKE as F32_LIKE,
)
from xttir.dialects.tt.types import (
    FLOAT_I8_TENSOR as FLOAT_I8_TENSOR,
)
from xttir.dialects.tt.types import (
    FLOAT_LIKE as FLOAT_LIKE,
)
from xttir.dialects.tt.types import (
    FLOAT_TENSOR as FLOAT_TENSOR,
)
from xttir.dialects.tt.types import (
    FLOAT_TYPES as FLOAT_TYPES,
)
from xttir.dialects.tt.types import (
    FP_INT_TENSOR as FP_INT_TENSOR,
)
from xttir.dialects.tt.types import (
    I16_I32_TENSOR as I16_I32_TENSOR,
)
from xttir.dialects.tt.types import (
    I64_LIKE as I64_LIKE,
)
from xttir.dialects.tt.types import (
    INT_LIKE as INT_LIKE,
)
from xttir.dialects.tt.types import (
    INT_TENSOR as INT_TENSOR,
)
from xttir.dialects.tt.types import (
    PTR as PTR,
)
from xttir.dialects.tt.types import (
    PTR_LIKE as PTR_LIKE,
)
from xttir.dialects.tt.types import (
    TENSOR as TENSOR,
)
from xttir.dialects.tt.types import (
    TENSOR_DESC as TENSOR_DESC,
)
from xttir.dialects.tt.types import (
    CachePolicyAttr as CachePolicyAttr,
)
from xttir.dialects.tt.types import (
    PointerType as PointerType,
)
from xttir.dialects.tt.types import (
    TensorDescType as TensorDescType,
)
from xttir.dialects.tt.types import (
    bit_width as bit_width,
)
from xttir.dialects.tt.types import (
    int_of as int_of,
)
from xttir.dialects.tt.types import (
    is_float as is_float,
)
from xttir.dialects.tt.types import (
    is_fp_int as is_fp_int,
)
from xttir.dialects.tt.types import (
    is_int as is_int,
)
from xttir.dialects.tt.types import (
    is_ptr as is_ptr,
)
from xttir.dialects.tt.types import (
    is_scalar as is_scalar,
)
from xttir.dialects.tt.types import (
    like as like,
)
from xttir.dialects.tt.types import (
    pointee_type_of as pointee_type_of,
)
from xttir.dialects.tt.types import (
    pointer_to as pointer_to,
)
from xttir.dialects.tt.types import (
    tensor_of as tensor_of,
)

TT = Dialect(
    "tt",
    [
        AddPtrOp,
        ApproxDivFOp,
        BitcastOp,
        ClampFOp,
        ElementwiseInlineAsmOp,
        ExternElementwiseOp,
        FpToFpOp,
        IntToPtrOp,
        MapElementwiseOp,
        MapElementwiseReturnOp,
        MulhiUIOp,
        PreciseDivFOp,
        PreciseSqrtOp,
        PtrToIntOp,
        AtomicCASOp,
        AtomicLoadOp,
        AtomicPollOp,
        AtomicRMWOp,
        AtomicStoreOp,
        DescriptorGatherOp,
        DescriptorLoadOp,
        DescriptorReduceOp,
        DescriptorScatterOp,
        DescriptorStoreOp,
        GridDependencyLaunchDependentsOp,
        GridDependencyWaitOp,
        LoadOp,
        MakeTensorDescOp,
        StoreOp,
        BroadcastOp,
        CatOp,
        ExpandDimsOp,
        GatherOp,
        JoinOp,
        ReshapeOp,
        SplatOp,
        SplitOp,
        TransOp,
        UnsplatOp,
        DotOp,
        DotScaledOp,
        GetNumProgramsOp,
        GetProgramIdOp,
        HistogramOp,
        MakeRangeOp,
        ReduceOp,
        ReduceReturnOp,
        ScanOp,
        ScanReturnOp,
        AssertOp,
        CallOp,
        FuncOp,
        PrintOp,
        ReturnOp,
    ],
    [PointerType, TensorDescType, CachePolicyAttr],
)
