"""Names of the providers that come with rooflens; the modules behind them are imported when they are asked for."""

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from ..shapes.errors import RooflensError, UsageError, unknown_name

if TYPE_CHECKING:
    from .provider import AnyProvider

BUILTIN = {
    "simt_4bit": "rooflens.kernels.fourbit.triton_providers:SIMT",
    "gemv_4bit": "rooflens.kernels.fourbit.triton_providers:GEMV",
    "gemv_4bit_opt": "rooflens.kernels.fourbit.triton_providers:GEMV_OPT",
    "mma_4bit": "rooflens.kernels.fourbit.triton_providers:MMA",
    "stock_triton": "rooflens.kernels.fourbit.triton_providers:STOCK_TRITON",
    "simd_4bit_cpu": "rooflens.kernels.fourbit.cpu:SIMD_CPU",
    "dequant_blas": "rooflens.kernels.fourbit.blas:DEQUANT_BLAS",
    "blas": "rooflens.kernels.fourbit.blas:BLAS",
    "blas_rocblas": "rooflens.kernels.fourbit.blas:BLAS_ROCBLAS",
    "blas_hipblaslt": "rooflens.kernels.fourbit.blas:BLAS_HIPBLASLT",
    "bitsandbytes_gemm": "rooflens.kernels.fourbit.upstream_bitsandbytes:GEMM",
    "bitsandbytes_gemv": "rooflens.kernels.fourbit.upstream_bitsandbytes:GEMV",
    "bitsandbytes_dequant": "rooflens.kernels.fourbit.upstream_bitsandbytes:DEQUANT_LINEAR",
    "kernel_a16w8": "rooflens.kernels.a16w8.triton_providers:KERNEL",
    "wrapper_a16w8": "rooflens.kernels.a16w8.triton_providers:WRAPPER",
    "tuned_a16w8": "rooflens.kernels.a16w8.triton_providers:TUNED",
    "stock_triton_a16w8": "rooflens.kernels.a16w8.triton_providers:STOCK_TRITON",
    "dequant_bmm_a16w8": "rooflens.kernels.a16w8.blas:DEQUANT_BMM",
    "bmm_bf16_a16w8": "rooflens.kernels.a16w8.blas:BMM",
    "shared_fp8": "rooflens.kernels.fp8train.providers:SHARED",
    "specialised_fp8": "rooflens.kernels.fp8train.providers:SPECIALISED",
    "stock_triton_fp8": "rooflens.kernels.fp8train.stock:STOCK_TRITON",
    "dequant_blas_fp8": "rooflens.kernels.fp8train.blas:DEQUANT_BLAS",
    "blas_bf16_fp8": "rooflens.kernels.fp8train.blas:BLAS_BF16",
    "torch_scaled_mm_fp8": "rooflens.kernels.fp8train.scaled_mm:TORCH_SCALED_MM",
    "triton_quant_fp8": "rooflens.kernels.fp8train.quantizers:TRITON_QUANT",
    "torch_quant_fp8": "rooflens.kernels.fp8train.quantizers:TORCH_QUANT",
    "gemv_mx": "rooflens.kernels.mxfp8.providers:GEMV",
    "mma_mx": "rooflens.kernels.mxfp8.providers:MMA",
    "stock_triton_mx": "rooflens.kernels.mxfp8.stock:STOCK_TRITON",
    "small_tile_mx": "rooflens.kernels.mxfp8.stock:SMALL_TILE",
    "dispatch_mx": "rooflens.kernels.mxfp8.dispatch:DISPATCH",
    "dequant_blas_mx": "rooflens.kernels.mxfp8.blas:DEQUANT_BLAS",
    "blas_bf16_mx": "rooflens.kernels.mxfp8.blas:BLAS_BF16",
    "torch_scaled_mm_mx": "rooflens.kernels.mxfp8.scaled_mm:TORCH_SCALED_MM",
    "triton_quant_mx": "rooflens.kernels.mxfp8.quantizers:TRITON_QUANT",
    "torch_quant_mx": "rooflens.kernels.mxfp8.quantizers:TORCH_QUANT",
    "grouped_moe": "rooflens.kernels.mxfp8_moe.providers:GROUPED",
    "gemv_moe": "rooflens.kernels.mxfp8_moe.providers:GEMV",
    "guarded_moe": "rooflens.kernels.mxfp8_moe.providers:GUARDED",
    "grouped_with_align_moe": "rooflens.kernels.mxfp8_moe.end_to_end:GROUPED_WITH_ALIGN",
    "stock_triton_moe": "rooflens.kernels.mxfp8_moe.stock:STOCK_TRITON",
    "dispatch_moe": "rooflens.kernels.mxfp8_moe.dispatch:DISPATCH",
    "dequant_loop_moe": "rooflens.kernels.mxfp8_moe.blas:DEQUANT_LOOP",
    "loop_bf16_moe": "rooflens.kernels.mxfp8_moe.blas:LOOP_BF16",
    "triton_quant_ao": "rooflens.kernels.torchao.triton_providers:QUANTIZE",
    "torch_quant_ao": "rooflens.kernels.torchao.torch_quantize:TORCH_QUANTIZE",
    "gemm_ao": "rooflens.kernels.torchao.triton_providers:GEMM",
    "grouped_ao": "rooflens.kernels.torchao.triton_providers:GROUPED",
    "loop_ao": "rooflens.kernels.torchao.triton_providers:LOOP",
    "stock_triton_ao": "rooflens.kernels.torchao.triton_providers:STOCK_TRITON",
    "dequant_blas_ao": "rooflens.kernels.torchao.blas:DEQUANT_BLAS",
    "blas_bf16_ao": "rooflens.kernels.torchao.blas:BLAS",
    "dequant_loop_ao": "rooflens.kernels.torchao.blas:DEQUANT_LOOP",
    "loop_bf16_ao": "rooflens.kernels.torchao.blas:LOOP_BLAS",
    "grouped_mm_bf16_ao": "rooflens.kernels.torchao.grouped_mm:GROUPED_MM",
    "torchao_ao": "rooflens.kernels.torchao.upstream:TORCHAO",
    "aiter_a16w8": "rooflens.kernels.upstream.aiter_a16w8:AITER_A16W8",
    "aiter_mx": "rooflens.kernels.upstream.aiter_mx:AITER_MX",
    "primus_turbo_fp8": "rooflens.kernels.upstream.primus_turbo:PRIMUS_TURBO_FP8",
}
"""name -> "module:attribute". To add a provider, write its module and one line here."""

ENTRY_POINT_GROUP = "rooflens.providers"


def names() -> list[str]:
    """Names of the shipped providers and of those that installed packages offer, in registry order."""
    return list(dict.fromkeys((*BUILTIN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP)))))


def load(wanted: Iterable[str], files: Iterable[Path] = ()) -> "dict[str, AnyProvider]":
    """Import the providers named in `wanted`, and all providers of the user's `files`.

    Providers of `files` come first. Raises UsageError for an unknown name, a name given twice, or a file that fails,
    and RooflensError for an installed provider that cannot be imported.
    """
    loaded: dict[str, AnyProvider] = {}
    for file in files:
        for provider in _from_file(file):
            if provider.name in loaded or provider.name in names():
                raise UsageError(f"{file}: provider name {provider.name!r} is taken; choose another")
            loaded[provider.name] = provider
    points = {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}
    for name in wanted:
        if name in loaded:
            continue
        target = BUILTIN.get(name) or points.get(name)
        if target is None:
            raise unknown_name("provider", name, [*loaded, *names()])
        loaded[name] = _installed(name, target)
    return loaded


def _installed(name: str, target: str) -> "AnyProvider":
    """Import "module:attribute" and check that it is the provider of that name."""
    from .provider import Provider

    module, _, attribute = target.partition(":")
    try:
        provider = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise RooflensError(f"provider {name!r} ({target}) cannot be imported: {error}") from error
    if not isinstance(provider, Provider) or provider.name != name:
        raise RooflensError(f"provider {name!r}: {target} is not a Provider instance of that name")
    return provider


def _from_file(file: Path) -> "list[AnyProvider]":
    """Import a user's file under a name of its own, its folder importable, and return its PROVIDERS."""
    from .provider import Provider

    file = file.resolve()
    if not file.is_file():
        raise UsageError(f"--providers {file}: no such file")
    place = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    name = re.sub(r"\W", "_", f"rooflens_user_{file.stem}_{place}")  # two files may have the same name
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise UsageError(f"--providers {file}: not a Python file")
        sys.path.insert(0, str(file.parent))
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            sys.path.remove(str(file.parent))
            raise UsageError(f"--providers {file}: {type(error).__name__}: {error}") from error
    providers = getattr(sys.modules[name], "PROVIDERS", None)
    if not isinstance(providers, list | tuple) or not all(isinstance(one, Provider) for one in providers):
        raise UsageError(f"--providers {file}: define PROVIDERS = [MyProvider()], a list of Provider instances")
    if not providers:
        raise UsageError(f"--providers {file}: PROVIDERS is empty")
    if nameless := [type(one).__name__ for one in providers if not getattr(one, "name", "")]:
        raise UsageError(f"--providers {file}: {', '.join(nameless)} needs a class attribute `name`")
    return list(providers)
