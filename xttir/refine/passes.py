"""Triton's passes by name, from the libtriton of the installed wheel.

libtriton has every pass and MLIR's parser of textual pipelines, but no pass is registered there.
The functions that make passes are exported C++ symbols without arguments; each becomes a pass
factory (`mlir::registerPass`), and from then on a textual pipeline is parsed by MLIR itself,
options and nesting included. To be used in a process of its own (`pass_server`): passes may crash.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

_FACTORIES = """
mlir: createCSEPass createCanonicalizerPass createInlinerPass createLoopInvariantCodeMotionPass
 createSCCPPass createSymbolDCEPass createSCFToControlFlowPass createReconcileUnrealizedCastsPass
 createNVGPUTestWSCodePartition createNVGPUTestWSDataPartition createNVGPUTestWSTaskIdPropagate
 createNVGPUTestWSTaskPartition createNVGPUWarpSpecialization
mlir::triton: createAllocateSharedMemoryNv createConvertTritonToTritonGPU
 createInitializeWSClusterBarriers createNVWSAssignStagePhase createNVWSHoistTmemStore
 createNVWSInsertAref createNVWSInsertTmemAref createNVWSLowerAref createNVWSLowerWarpGroup
 createRelayoutTritonGPU createSetMinimumSharedMemory createTritonCombineOps
 createTritonLoopAwareCSE createTritonLoopInvariantCodeMotion createTritonLoopUnroll
 createTritonNvidiaGPUMembar createTritonReorderBroadcast
 createTritonRewriteTensorDescriptorToPointer
mlir::triton::gluon: createGluonCanonicalize createGluonInferCoalescedEncodingsPass
 createGluonInline createGluonResolveAutoEncodingsPass createGluonSimplifyControlFlow
mlir::triton::gpu: createAllocateSharedMemory createTritonGPUAccelerateMatmul
 createTritonGPUAllocateWarpGroups createTritonGPUAssignLatencies
 createTritonGPUAutomaticWarpSpecialization createTritonGPUCoalesce
 createTritonGPUCoalesceAsyncCopy createTritonGPUCombineTensorSelectAndIf createTritonGPUF32DotTC
 createTritonGPUFuseNestedLoops createTritonGPUGlobalScratchAllocationPass
 createTritonGPUHoistTMEMAlloc createTritonGPUNormalizeWSWhileLoops
 createTritonGPUOptimizeAccumulatorInit createTritonGPUOptimizeDotOperands
 createTritonGPUOptimizePartitionWarps createTritonGPUOptimizeThreadLocality
 createTritonGPUPartitionLoops createTritonGPUPartitionScheduling createTritonGPUPipeline
 createTritonGPUPrefetch createTritonGPUReduceDataDuplication
 createTritonGPURemoveLayoutConversions createTritonGPUReorderInstructions
 createTritonGPUScheduleLoops createTritonGPUTestPipelineLowerLoop
mlir::triton::nvidia_gpu: createTritonGPUFenceInsertion createTritonGPUProxyFenceInsertion
 createTritonNvidiaGPUAssignCGALayoutsPass createTritonNvidiaGPUCheckMatmulTwoCTAPass
 createTritonNvidiaGPUClusterBarrierMbarAllocatorPass
 createTritonNvidiaGPUFuseTMEMLoadReducePass createTritonNvidiaGPUHoistMBarrierLifecyclePass
 createTritonNvidiaGPUInterleaveTMemPass createTritonNvidiaGPULowerCLCPass
 createTritonNvidiaGPUMMALoweringPass createTritonNvidiaGPUOptimizeCTALocalityPass
 createTritonNvidiaGPUOptimizeDescriptorEncodingPass createTritonNvidiaGPUOptimizeTMemLayoutsPass
 createTritonNvidiaGPUPlanCTAPass createTritonNvidiaGPUPromoteLHSToTMemPass
 createTritonNvidiaGPURemoveTMEMTokensPass createTritonNvidiaGPUTMALoweringPass
 createTritonNvidiaGPUTMemBarrierInsertionPass createTritonNvidiaGPUTMemWaitInsertionPass
 createTritonNvidiaGPUToCLCPass createTritonTensorMemoryAllocationPass
"""
"""Functions without arguments that make passes, by namespace; a release may lack some."""

_OPERATION_PIPELINE = (
    "_ZN4mlir17parsePassPipelineEN4llvm9StringRefERNS_13OpPassManagerERNS0_11raw_ostreamE"
)
_REGISTER = (
    "_ZN4mlir12registerPassERKSt8functionIFSt10unique_ptrINS_4PassESt14default_deleteIS2_EEvEE"
)
_ERRS = "_ZN4llvm4errsEv"

_Manager = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


class _Function(ctypes.Structure):
    """libstdc++'s `std::function`: two words of state, how to copy it, how to call it."""

    _fields_ = (
        ("state", ctypes.c_void_p * 2),
        ("manager", _Manager),
        ("invoker", ctypes.c_void_p),
    )


def _mangled(namespace: str, name: str) -> str:
    """The symbol of `namespace::name()`."""
    return "_ZN" + "".join(f"{len(p)}{p}" for p in (*namespace.split("::"), name)) + "Ev"


def library_path() -> Path:
    """The file of libtriton. Raises ModuleNotFoundError where there is no Triton."""
    spec = importlib.util.find_spec("triton")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("Triton is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / "_C" / "libtriton.so"


class PassLibrary:
    """libtriton with its passes registered. One per process.

    `module`: the extension module, loaded alone (the `triton` package around it takes five times as
    long) unless Triton is imported already.
    """

    def __init__(self) -> None:
        path = library_path()
        name = "triton._C.libtriton"
        loaded = sys.modules.get(name)
        if loaded is None:
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            loaded = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded)
        self.module: Any = loaded
        self._c = ctypes.CDLL(str(path))
        # The factories have no state: copying one is doing nothing.
        self._keep = _Manager(lambda target, source, operation: False)
        self._register()

    def _register(self) -> None:
        register = getattr(self._c, _REGISTER)
        register.argtypes, register.restype = [ctypes.c_void_p], None
        for paragraph in re.split(r"\n(?=mlir)", _FACTORIES.strip()):
            namespace, _, names = paragraph.partition(": ")
            for name in names.split():
                symbol = getattr(self._c, _mangled(namespace, name), None)
                if symbol is None:
                    continue
                # A factory returns its pass through a hidden first argument, as does what calls
                # a std::function; the second argument, its state, is not looked at.
                address = ctypes.cast(symbol, ctypes.c_void_p).value
                function = _Function((ctypes.c_void_p * 2)(), self._keep, address)
                register(ctypes.byref(function))

    def context(self) -> Any:
        """A new MLIR context with all of Triton's dialects."""
        context = self.module.ir.context()
        self.module.ir.load_dialects(context)
        self.module.nvidia.load_dialects(context)
        return context

    def add(self, manager: Any, pipeline: str) -> bool:
        """Add a textual pipeline to a pass manager; False (with a message on standard error) if it
        cannot be parsed."""
        parse = getattr(self._c, _OPERATION_PIPELINE)
        parse.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
        parse.restype = ctypes.c_ubyte
        errs = getattr(self._c, _ERRS)
        errs.restype = ctypes.c_void_p
        text = pipeline.encode()
        return bool(parse(text, len(text), _address_of(manager), errs()))


def _address_of(instance: Any) -> int:
    """The C++ object that a Python object of libtriton's stands for."""
    if "_pybind11_conduit_v1_" in dir(instance):
        return ctypes.c_void_p.from_address(id(instance) + 16).value or 0
    offset = ctypes.c_int32.from_address(id(instance) + 16).value
    flags = ctypes.c_uint32.from_address(id(instance) + 20).value
    at = id(instance) + offset
    direct = flags & 0b100
    return at if direct else ctypes.c_void_p.from_address(at).value or 0
