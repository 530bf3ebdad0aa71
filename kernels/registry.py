"""Names of the providers that come with rooflens; the modules behind them are imported on demand."""

import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ..shapes.errors import RooflensError, UsageError, unknown_name
from ..shapes.schemes import FAMILY_NAMES
from . import needs
from .needs import Need
from .provider_paths import import_folders, make_importable, refuse_namesakes

if TYPE_CHECKING:
    from .provider import AnyProvider


@dataclass(frozen=True, slots=True)
class Shipped:
    """A provider that comes with rooflens: what its class declares, and where it is ("module:attribute").

    `on_cpu` says why it does not run on a CPU; on a GPU only the provider knows.
    """

    family: str
    role: str
    place: str
    on_cpu: Need = needs.NOTHING

    @property
    def target(self) -> str:
        """Full "module:attribute"."""
        return f"rooflens.kernels.{self.place}"


BUILTIN = {
    "simt_4bit": Shipped("fourbit", "candidate", "fourbit.triton_providers:SIMT", needs.GPU),
    "gemv_4bit": Shipped("fourbit", "candidate", "fourbit.triton_providers:GEMV", needs.GPU),
    "gemv_4bit_opt": Shipped("fourbit", "candidate", "fourbit.triton_providers:GEMV_OPT", needs.GPU),
    "mma_4bit": Shipped("fourbit", "candidate", "fourbit.triton_providers:MMA", needs.GPU),
    "cuda_4bit": Shipped("fourbit", "candidate", "fourbit.cuda_provider:CUDA_4BIT", needs.CUDA_SM90),
    "stock_triton": Shipped("fourbit", "reference", "fourbit.triton_providers:STOCK_TRITON", needs.GPU),
    "simd_4bit_cpu": Shipped("fourbit", "candidate", "fourbit.cpu:SIMD_CPU", needs.compiler),
    "dequant_blas": Shipped("fourbit", "dequant_blas", "fourbit.blas:DEQUANT_BLAS"),
    "blas": Shipped("fourbit", "reference", "fourbit.blas:BLAS"),
    "blas_best": Shipped("fourbit", "reference", "fourbit.blas:BLAS_BEST", needs.BLAS_LT),
    "blas_rocblas": Shipped("fourbit", "reference", "fourbit.blas:BLAS_ROCBLAS", needs.ROCBLAS),
    "blas_hipblaslt": Shipped("fourbit", "reference", "fourbit.blas:BLAS_HIPBLASLT", needs.HIPBLASLT),
    "bitsandbytes_gemm": Shipped("fourbit", "upstream", "fourbit.upstream_bitsandbytes:GEMM", needs.bitsandbytes),
    "bitsandbytes_gemv": Shipped("fourbit", "upstream", "fourbit.upstream_bitsandbytes:GEMV", needs.bitsandbytes_gemv),
    "bitsandbytes_dequant": Shipped(
        "fourbit", "upstream", "fourbit.upstream_bitsandbytes:DEQUANT_LINEAR", needs.bitsandbytes
    ),
    "torch_int4": Shipped("fourbit", "upstream", "fourbit.upstream_torch:TORCH_INT4"),
    "kernel_a16w8": Shipped("a16w8", "candidate", "a16w8.triton_providers:KERNEL", needs.GPU),
    "wrapper_a16w8": Shipped("a16w8", "candidate", "a16w8.triton_providers:WRAPPER", needs.GPU),
    "cuda_a16w8": Shipped("a16w8", "candidate", "a16w8.cuda_provider:CUDA_A16W8", needs.CUDA_SM90),
    "tuned_a16w8": Shipped("a16w8", "candidate", "a16w8.triton_providers:TUNED", needs.GPU),
    "stock_triton_a16w8": Shipped("a16w8", "stock_triton", "a16w8.triton_providers:STOCK_TRITON", needs.GPU),
    "dequant_bmm_a16w8": Shipped("a16w8", "dequant_blas", "a16w8.blas:DEQUANT_BMM"),
    "bmm_bf16_a16w8": Shipped("a16w8", "reference", "a16w8.blas:BMM"),
    "bmm_best_a16w8": Shipped("a16w8", "reference", "a16w8.blas:BMM_BEST", needs.BLAS_LT),
    "bmm_rocblas_a16w8": Shipped("a16w8", "reference", "a16w8.blas:BMM_ROCBLAS", needs.ROCBLAS),
    "bmm_hipblaslt_a16w8": Shipped("a16w8", "reference", "a16w8.blas:BMM_HIPBLASLT", needs.HIPBLASLT),
    "shared_fp8": Shipped("fp8train", "candidate", "fp8train.providers:SHARED", needs.GPU),
    "specialised_fp8": Shipped("fp8train", "candidate", "fp8train.providers:SPECIALISED", needs.GPU),
    "cuda_fp8": Shipped("fp8train", "candidate", "fp8train.cuda_provider:CUDA_FP8", needs.CUDA_SM90),
    "stock_triton_fp8": Shipped("fp8train", "reference", "fp8train.stock:STOCK_TRITON", needs.GPU),
    "dequant_blas_fp8": Shipped("fp8train", "dequant_blas", "fp8train.blas:DEQUANT_BLAS"),
    "blas_bf16_fp8": Shipped("fp8train", "reference", "fp8train.blas:BLAS_BF16"),
    "blas_rocblas_fp8": Shipped("fp8train", "reference", "fp8train.blas:BLAS_ROCBLAS", needs.ROCBLAS),
    "blas_hipblaslt_fp8": Shipped("fp8train", "reference", "fp8train.blas:BLAS_HIPBLASLT", needs.HIPBLASLT),
    "torch_scaled_mm_fp8": Shipped("fp8train", "upstream", "fp8train.scaled_mm:TORCH_SCALED_MM", needs.SM90),
    "triton_quant_fp8": Shipped("fp8train", "candidate", "fp8train.quantizers:TRITON_QUANT", needs.GPU),
    "torch_quant_fp8": Shipped("fp8train", "candidate", "fp8train.quantizers:TORCH_QUANT"),
    "gemv_mx": Shipped("mxfp8", "candidate", "mxfp8.providers:GEMV", needs.GPU),
    "mma_mx": Shipped("mxfp8", "candidate", "mxfp8.providers:MMA", needs.GPU),
    "cuda_mx": Shipped("mxfp8", "candidate", "mxfp8.cuda_provider:CUDA_MX", needs.CUDA_SM90),
    "stock_triton_mx": Shipped("mxfp8", "stock_triton", "mxfp8.stock:STOCK_TRITON", needs.GPU),
    "small_tile_mx": Shipped("mxfp8", "stock_triton", "mxfp8.stock:SMALL_TILE", needs.GPU),
    "dispatch_mx": Shipped("mxfp8", "candidate", "mxfp8.dispatch:DISPATCH", needs.GPU),
    "dequant_blas_mx": Shipped("mxfp8", "dequant_blas", "mxfp8.blas:DEQUANT_BLAS"),
    "blas_bf16_mx": Shipped("mxfp8", "reference", "mxfp8.blas:BLAS_BF16"),
    "blas_best_mx": Shipped("mxfp8", "reference", "mxfp8.blas:BLAS_BEST", needs.BLAS_LT),
    "blas_rocblas_mx": Shipped("mxfp8", "reference", "mxfp8.blas:BLAS_ROCBLAS", needs.ROCBLAS),
    "blas_hipblaslt_mx": Shipped("mxfp8", "reference", "mxfp8.blas:BLAS_HIPBLASLT", needs.HIPBLASLT),
    "torch_scaled_mm_mx": Shipped("mxfp8", "upstream", "mxfp8.scaled_mm:TORCH_SCALED_MM", needs.block_scaled_missing),
    "triton_quant_mx": Shipped("mxfp8", "candidate", "mxfp8.quantizers:TRITON_QUANT", needs.GPU),
    "torch_quant_mx": Shipped("mxfp8", "candidate", "mxfp8.quantizers:TORCH_QUANT"),
    "grouped_moe": Shipped("mxfp8_moe", "candidate", "mxfp8_moe.providers:GROUPED", needs.GPU),
    "gemv_moe": Shipped("mxfp8_moe", "candidate", "mxfp8_moe.providers:GEMV", needs.GPU),
    "guarded_moe": Shipped("mxfp8_moe", "candidate", "mxfp8_moe.providers:GUARDED", needs.GPU),
    "grouped_with_align_moe": Shipped("mxfp8_moe", "candidate", "mxfp8_moe.providers:GROUPED_WITH_ALIGN", needs.GPU),
    "stock_triton_moe": Shipped("mxfp8_moe", "stock_triton", "mxfp8_moe.stock:STOCK_TRITON", needs.GPU),
    "dispatch_moe": Shipped("mxfp8_moe", "candidate", "mxfp8_moe.dispatch:DISPATCH", needs.GPU),
    "dequant_loop_moe": Shipped("mxfp8_moe", "dequant_blas", "mxfp8_moe.blas:DEQUANT_LOOP"),
    "loop_bf16_moe": Shipped("mxfp8_moe", "reference", "mxfp8_moe.blas:LOOP_BF16"),
    "loop_rocblas_moe": Shipped("mxfp8_moe", "reference", "mxfp8_moe.blas:LOOP_ROCBLAS", needs.ROCBLAS),
    "loop_hipblaslt_moe": Shipped("mxfp8_moe", "reference", "mxfp8_moe.blas:LOOP_HIPBLASLT", needs.HIPBLASLT),
    "triton_quant_ao": Shipped("torchao", "candidate", "torchao.triton_providers:QUANTIZE", needs.GPU),
    "torch_quant_ao": Shipped("torchao", "candidate", "torchao.torch_quantize:TORCH_QUANTIZE"),
    "gemm_ao": Shipped("torchao", "candidate", "torchao.triton_providers:GEMM", needs.GPU),
    "grouped_ao": Shipped("torchao", "candidate", "torchao.triton_providers:GROUPED", needs.GPU),
    "cuda_ao": Shipped("torchao", "candidate", "torchao.cuda_provider:CUDA", needs.CUDA_SM90),
    "cuda_grouped_ao": Shipped("torchao", "candidate", "torchao.cuda_provider:CUDA_GROUPED", needs.CUDA_SM90),
    "loop_ao": Shipped("torchao", "candidate", "torchao.triton_providers:LOOP", needs.GPU),
    "stock_triton_ao": Shipped("torchao", "reference", "torchao.triton_providers:STOCK_TRITON", needs.GPU),
    "dequant_blas_ao": Shipped("torchao", "dequant_blas", "torchao.blas:DEQUANT_BLAS"),
    "blas_bf16_ao": Shipped("torchao", "reference", "torchao.blas:BLAS"),
    "blas_rocblas_ao": Shipped("torchao", "reference", "torchao.blas:BLAS_ROCBLAS", needs.ROCBLAS),
    "blas_hipblaslt_ao": Shipped("torchao", "reference", "torchao.blas:BLAS_HIPBLASLT", needs.HIPBLASLT),
    "dequant_loop_ao": Shipped("torchao", "dequant_blas", "torchao.blas:DEQUANT_LOOP"),
    "loop_bf16_ao": Shipped("torchao", "reference", "torchao.blas:LOOP_BLAS"),
    "loop_rocblas_ao": Shipped("torchao", "reference", "torchao.blas:LOOP_ROCBLAS", needs.ROCBLAS),
    "loop_hipblaslt_ao": Shipped("torchao", "reference", "torchao.blas:LOOP_HIPBLASLT", needs.HIPBLASLT),
    "grouped_mm_bf16_ao": Shipped("torchao", "reference", "torchao.grouped_mm:GROUPED_MM", needs.grouped_mm),
    "torchao_ao": Shipped("torchao", "upstream", "torchao.upstream:TORCHAO", needs.TORCHAO.on_cpu),
    "aiter_a16w8": Shipped("a16w8", "upstream", "upstream.aiter_a16w8:AITER_A16W8", needs.AITER_A16W8.on_cpu),
    "aiter_mx": Shipped("mxfp8", "upstream", "upstream.aiter_mx:AITER_MX", needs.AITER_MX.on_cpu),
    "aiter_moe": Shipped("mxfp8_moe", "upstream", "upstream.aiter_mx:AITER_MOE", needs.AITER_MX.on_cpu),
    "primus_turbo_fp8": Shipped(
        "fp8train", "upstream", "upstream.primus_turbo:PRIMUS_TURBO_FP8", needs.PRIMUS_TURBO.on_cpu
    ),
}
"""By name, in the order of every list. To add a provider, write its module and one line here."""

ENTRY_POINT_GROUP = "rooflens.providers"

ALL = "rooflens list providers"
"""The command that prints every name."""


def names() -> list[str]:
    """Names of the shipped providers and of those that installed packages offer, in registry order."""
    return list(dict.fromkeys((*BUILTIN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP)))))


def load(wanted: Iterable[str], files: Iterable[Path] = ()) -> "dict[str, AnyProvider]":
    """Import the providers named in `wanted`, and all providers of the user's `files`.

    Providers of `files` come first. Raises UsageError for an unknown name, a name given twice, or a file that fails,
    and RooflensError for an installed provider that cannot be imported.
    """
    loaded: dict[str, AnyProvider] = {}
    files = list(files)
    for file in files:
        for provider in _from_file(file):
            if provider.name in loaded or provider.name in names():
                raise UsageError(f"{file}: provider name {provider.name!r} is taken; choose another")
            loaded[provider.name] = provider
    refuse_namesakes(files)
    points = {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}
    for name in wanted:
        if name in loaded:
            continue
        target = BUILTIN[name].target if name in BUILTIN else points.get(name)
        if target is None:
            raise unknown_name("provider", name, [*loaded, *names()], f"see {ALL}")
        loaded[name] = _installed(name, target)
    return loaded


def trusted(providers: "Mapping[str, AnyProvider]") -> frozenset[str]:
    """Names of the providers that may update what a launch finds ready outside of timing (`Launch.refresh`).

    Those that rooflens ships, and references, which nothing is dispatched to. To be asked before any of their code has
    run: a provider could become a reference later.
    """
    from .provider import Role

    return frozenset(name for name, one in providers.items() if name in BUILTIN or one.role is Role.REFERENCE)


def _installed(name: str, target: str) -> "AnyProvider":
    """Import "module:attribute" and check that it is the provider of that name."""
    from .provider import Provider, Role

    module, _, attribute = target.partition(":")
    try:
        provider = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise RooflensError(f"provider {name!r} ({target}) cannot be imported: {_why(error)}") from error
    if not isinstance(provider, Provider) or provider.name != name:
        raise RooflensError(f"provider {name!r}: {target} is not a Provider instance of that name")
    if provider.role not in list(Role):
        raise RooflensError(f"provider {name!r} ({target}): role {provider.role!r}: {_roles(provider.role)}")
    _check_family(provider, f"provider {name!r} ({target})")
    return provider


def import_file(file: Path, said: str = "") -> ModuleType:
    """Import a user's file once, under a name of its own, with what is beside it importable.

    Raises UsageError, which begins with `said`, for a file that is not there or that fails.
    """
    file = file.resolve()
    if not file.is_file():
        raise UsageError(f"{said}{file}: no such file")
    place = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    name = re.sub(r"\W", "_", f"rooflens_user_{file.stem}_{place}")  # two files may have the same name
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise UsageError(f"{said}{file}: not a Python file")
        search_path = list(sys.path)
        make_importable(file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # a script without a guard exits, with 0 even
            del sys.modules[name]
            sys.path[:] = search_path
            reason = f"{_why(error)}{_searched(file, error)}"
            raise UsageError(f"{said}{_where(file, error)}: {type(error).__name__}: {reason}") from error
    return sys.modules[name]


def _from_file(file: Path) -> "list[AnyProvider]":
    """Import a user's file, and return its PROVIDERS."""
    from .provider import Provider, Role

    file = file.resolve()
    providers = getattr(import_file(file, "--providers "), "PROVIDERS", None)
    if not isinstance(providers, list | tuple) or not all(isinstance(one, Provider) for one in providers):
        other = f"; to time its functions as they are: rooflens bench {file.name}"
        raise UsageError(f"--providers {file}: define PROVIDERS = [MyProvider()], a list of Provider instances{other}")
    if not providers:
        raise UsageError(f"--providers {file}: PROVIDERS is empty")
    if nameless := [type(one).__name__ for one in providers if not getattr(one, "name", "")]:
        raise UsageError(f"--providers {file}: {', '.join(nameless)} needs a class attribute `name`")
    for one in providers:
        if one.role not in list(Role):
            raise UsageError(f"--providers {file}: {type(one).__name__}.role is {one.role!r}: {_roles(one.role)}")
        _check_family(one, f"--providers {file}: {one.name}")
    return list(providers)


def _check_family(provider: "AnyProvider", said: str) -> None:
    """Raise UsageError for a family that does not exist: its provider would be unsupported everywhere."""
    if provider.family not in ("", *FAMILY_NAMES):
        raise UsageError(f"{said}: {unknown_name('family', str(provider.family), list(FAMILY_NAMES))}")


def _roles(unknown: object) -> str:
    """Return what to write in place of a role that does not exist."""
    from .provider import Role

    if str(unknown).upper() == "BLAS":  # its name in files for older versions
        return "it is called Role.REFERENCE now"
    return f"choose one of {', '.join(f'Role.{role.name}' for role in Role)}"


def _where(file: Path, error: BaseException) -> str:
    """Return the file, with the line of it that was executed last."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f"{file}:{lines[-1]}" if lines else str(file)


def _why(error: BaseException) -> str:
    """Return what an import raised, in one line."""
    from .provider import Role

    if isinstance(error, AttributeError) and error.obj is Role:
        return f"there is no Role.{error.name}: {_roles(error.name)}"
    return " ".join(str(error).split())


def _searched(file: Path, error: BaseException) -> str:
    """Return where a module was looked for that an import did not find."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package = error.name.rpartition(".")[0]
    if found := getattr(sys.modules.get(package), "__path__", None):
        return f" in {', '.join(found)}, where {package} is"
    return f"; looked in {', '.join(map(str, import_folders(file)))}, and among the packages of {sys.executable}"
