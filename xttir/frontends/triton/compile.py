"""Compile Triton kernels no further than the IR that is run.

A subclass of Triton's NVIDIA backend ends the pipeline after TTIR (after TTGIR for Gluon), under
cache keys of its own, so that Triton's disk cache works and holds nothing unusual. What only a full
compile knows (`asm["ptx"]`, shared memory, registers) is answered by a stock compile on demand.
Shared memory is bounded from the TTIR; only when the bound exceeds the device are the passes up to
the allocation run (see `resources.py`).
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import triton.compiler.compiler as triton_compiler
from triton.backends.compiler import Language
from triton.backends.nvidia.compiler import CUDABackend, CUDAOptions
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITCallable
from xdsl.dialects.builtin import ModuleOp

from xttir import __version__
from xttir.frontends.triton import resources

_FULL = contextvars.ContextVar("xttir_full_compile", default=False)

PLACEHOLDER = b"xttir: no binary was made\n"
EXACT = "xttir_exact"
"""Metadata key: whether the resource figures come from the compiler or are a bound."""
NUM_WARPS = "xttir_num_warps"
"""Metadata key: warps as asked for; warp specialisation changes `num_warps`."""


@contextlib.contextmanager
def full_compile() -> Iterator[None]:
    """Inside, Triton compiles as if xttir were not there (its own stages, its own cache keys)."""
    token = _FULL.set(True)
    try:
        yield
    finally:
        _FULL.reset(token)


def _wants_everything(options: Any) -> bool:
    """Whether the user asked for stages beyond ours by one of Triton's own switches."""
    from triton import knobs

    hook = knobs.runtime.add_stages_inspection_hook
    override = getattr(options, "ir_override", None) or ""
    return bool(
        _FULL.get()
        or hook is not None
        or knobs.compilation.dump_ir
        or knobs.compilation.override
        or override.endswith(".ttgir")
    )


class XttirBackend(CUDABackend):
    """Triton's NVIDIA backend, stopped once there is an IR to run."""

    def hash(self) -> str:
        """Part of the cache key. (The stock one starts ptxas to ask for its version.)"""
        if _FULL.get():
            return super().hash()
        return f"xttir-{__version__}-{self.target.arch}"

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        """(warps, CTAs, shared memory), without asking for exact figures."""
        raw = getattr(metadata, "_raw", metadata)
        return raw.num_warps, raw.num_ctas, raw.shared

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any) -> None:
        """TTIR, then a last stage that stands for the binary and fills in the metadata."""
        super().add_stages(stages, options, language)
        if _wants_everything(options):
            return
        last = "ttir" if language == Language.TRITON else "ttgir"
        lower = {name: stages.pop(name) for name in list(stages) if name not in ("glir", last)}
        capability = self._parse_arch(options.arch)

        def finish(module: Any, metadata: dict[str, Any]) -> bytes:
            metadata["name"] = module.get_entry_func_name()
            metadata[NUM_WARPS] = options.num_warps
            make_ttgir = lower.get("ttgir")
            resources.fill(self, module, metadata, options, capability, make_ttgir)
            return PLACEHOLDER

        stages[self.binary_ext] = finish


class LazyAsm(triton_compiler.AsmDict):
    """`kernel.asm`: the stages that were made, and the others when asked for."""

    owner: XttirKernel

    LATER = ("ttgir", "llir", "ptx", "cubin")

    def _fill(self) -> None:
        if dict.get(self, "cubin") == PLACEHOLDER:
            for key, value in self.owner.full().asm.items():
                if key == "cubin" or not dict.__contains__(self, key):
                    dict.__setitem__(self, key, value)

    def __getitem__(self, key: str) -> Any:
        if key == "cubin":
            self._fill()
        return super().__getitem__(key)

    def __missing__(self, key: str) -> Any:
        if key in self.LATER:
            self._fill()
            if dict.__contains__(self, key):
                return dict.__getitem__(self, key)
        return super().__missing__(key)

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or key in self.LATER

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def keys(self) -> Any:
        self._fill()
        return super().keys()

    def __iter__(self) -> Any:
        self._fill()
        return super().__iter__()

    def items(self) -> Any:
        self._fill()
        return super().items()

    def values(self) -> Any:
        self._fill()
        return super().values()

    def __len__(self) -> int:
        self._fill()
        return super().__len__()


def _lazy_metadata(kernel: XttirKernel, raw: Any) -> Any:
    """`raw` (Triton's named tuple) with exact figures for what was only bounded, on first use."""

    def figure(name: str) -> property:
        def read(_: Any) -> Any:
            return getattr(raw if kernel.taking_bounds else kernel.full().metadata, name)

        return property(read)

    names = [name for name in resources.FIGURES if name in raw._fields]
    lazy = type("KernelMetadata", (type(raw),), {name: figure(name) for name in names})
    result = lazy(*raw)
    result._raw = raw
    return result


class XttirKernel(triton_compiler.CompiledKernel):
    """A compiled kernel whose later stages and resource figures are made on demand."""

    taking_bounds = True
    """While True, resource figures are the bounds that were good enough for the checks."""

    def __init__(self, src: Any, metadata_group: Any, hash: str):
        self._full: Any = None
        self._ir: ModuleOp | None = None
        self._registers: tuple[int, int] | None = None
        super().__init__(src, metadata_group, hash)
        if not getattr(self.metadata, EXACT, True):
            self.metadata = _lazy_metadata(self, self.metadata)
        self._stopped = dict.get(self.asm, "cubin") == PLACEHOLDER
        asm = LazyAsm(self.asm)
        asm.owner = self
        self.asm = asm
        self.taking_bounds = False

    def __del__(self) -> None:
        """There is nothing to unload, and the driver may be uninstalled; the user's hook runs."""
        hook = triton_compiler.knobs.runtime.kernel_unload_hook
        if hook is not None and getattr(self, "module", None) is not None:
            hook(self.module, self.function, self.name, self.metadata_group, self.hash)
        self.module = None

    # Triton sets these; what it sets is a placeholder.
    @property
    def kernel(self) -> bytes:
        """The binary. Loading it, which needs none here, gets the placeholder."""
        return dict.__getitem__(self.asm, "cubin") if self.taking_bounds else self.asm["cubin"]

    @kernel.setter
    def kernel(self, value: bytes) -> None:
        pass

    @property
    def n_regs(self) -> int:
        """Registers per thread, from the binary of a full compile."""
        return self._usage()[0]

    @n_regs.setter
    def n_regs(self, value: int) -> None:
        pass

    @property
    def n_spills(self) -> int:
        """Spilled registers per thread, from the binary of a full compile."""
        return self._usage()[1]

    @n_spills.setter
    def n_spills(self, value: int) -> None:
        pass

    def _usage(self) -> tuple[int, int]:
        if self._registers is None:
            self._registers = resources.register_usage(self.asm["cubin"])
        return self._registers

    def _init_handles(self) -> None:
        if self.module is not None:
            return
        from xttir.frontends.triton import driver

        self.taking_bounds = True
        try:
            super()._init_handles()
        except OutOfResources as error:
            driver.out_of_resources(error, self.name)
            self._run = functools.partial(self._refuse, copy.deepcopy(error))
            raise
        finally:
            self.taking_bounds = False
        launcher: Any = self._run
        launcher.bind(self)

    def _refuse(self, error: OutOfResources, *args: Any, **kwargs: Any) -> None:
        """What a launch does once the kernel was found not to fit."""
        from xttir.frontends.triton import driver

        driver.out_of_resources(error, self.name)
        raise copy.deepcopy(error)

    def full(self) -> Any:
        """The same kernel compiled by the stock pipeline, through Triton's own cache."""
        if not self._stopped:
            return self
        if self._full is None:
            raw = getattr(self.metadata, "_raw", self.metadata)
            with full_compile():
                self._full = triton_compiler.compile(
                    self.src, target=raw.target, options=options_of(raw)
                )
        return self._full

    @property
    def ir_text(self) -> str:
        """The text of the module that is run: TTIR, or TTGIR for Gluon and for TTGIR files."""
        language = getattr(self.src, "language", None)
        if language == Language.GLUON or not dict.__contains__(self.asm, "ttir"):
            return self.asm["ttgir"]
        if (getattr(self.metadata, "ir_override", None) or "").endswith(".ttgir"):
            return self.asm["ttgir"]
        return self.asm["ttir"]

    @property
    def ir(self) -> ModuleOp:
        """The module that is run, parsed once per kernel."""
        if self._ir is None:
            from xttir.frontends.mlir import parse_module

            # Triton has verified it; checking its types again would cost a third of the parse.
            text = self.ir_text
            self._ir = parse_module(text, f"{self.name}.mlir", verify=False)
            if "ttng.tc_gen5_mma" in text:
                _issue_products(self._ir)
        return self._ir


def _issue_products(module: ModuleOp) -> None:
    """What is left of the pipeline after TTGIR only issues the products of tcgen05. Those that are
    not `is_async` are made to wait by a pass before (`triton-nvidia-mma-lowering`), which Gluon's
    pipeline does not run."""
    from xdsl.dialects.builtin import UnitAttr

    from xttir.dialects import ttng

    for op in module.walk():
        if isinstance(op, ttng.TCGen5MMAOp | ttng.TCGen5MMAScaledOp):
            op.is_async = UnitAttr()


def options_of(metadata: Any) -> dict[str, Any]:
    """The options a kernel was compiled with, read back from its metadata."""

    def plain(value: Any) -> Any:
        return tuple(plain(v) for v in value) if isinstance(value, list) else value

    names = [n for n in CUDAOptions.__dataclass_fields__ if hasattr(metadata, n)]
    options = {name: plain(getattr(metadata, name)) for name in names}
    options["num_warps"] = getattr(metadata, NUM_WARPS, options["num_warps"])
    return options


def _source_files(function: Any, found: dict[int, str]) -> None:
    """The files of a JIT function and of the JIT functions it names, by the functions' ids."""
    if id(function) in found:
        return
    code = getattr(getattr(function, "fn", None), "__code__", None)
    if code is None:
        return
    found[id(function)] = code.co_filename
    names = inspect.getclosurevars(function.fn)
    values = [*names.globals.values(), *names.nonlocals.values()]
    for value in values:
        if isinstance(value, JITCallable):
            _source_files(value, found)
        elif inspect.ismodule(value) and not value.__name__.startswith("triton"):
            for name in code.co_names:
                inner = getattr(value, name, None)
                if isinstance(inner, JITCallable):
                    _source_files(inner, found)


def key_with_files(get_cache_key: Any) -> Any:
    """Wrap `get_cache_key`: Triton takes equal functions of two files for one kernel, and the
    cached IR then carries the locations of whichever was compiled first."""

    def wrapped(src: Any, *args: Any, **kwargs: Any) -> str:
        key = get_cache_key(src, *args, **kwargs)
        function = getattr(src, "fn", None)
        if _FULL.get() or function is None:
            return key
        files: dict[int, str] = {}
        _source_files(function, files)
        return "-".join([key, *sorted(set(files.values()))])

    return wrapped


def compile_ir_files_fully(compile: Any) -> Any:
    """Wrap `triton.compile`: a source that is an IR file starts at a stage we may not have."""

    def wrapped(src: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(src, str):
            with full_compile():
                return compile(src, *args, **kwargs)
        return compile(src, *args, **kwargs)

    wrapped.__wrapped__ = compile
    return wrapped
