"""Which of its kernels bitsandbytes runs for a problem.

Its Python code decides between a fused kernel and dequantize + linear; that rule is asked, not repeated. Its C++ code
decides between the fused kernels; that rule (csrc/gemm_4bit.cu @95f9af3, in 0.50.0 to 0.50.2) cannot be asked and is
restated here.
"""

import importlib

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.scheme import DType
from ...shapes.schemes.fourbit import FourBit
from .. import cpu_info
from ..inputs import TORCH_DTYPES

SIMT = "simt"
MMA = "mma"
GEMV = "gemv"
CPU_GEMM = "cpu_avx512_bf16"
HUB_KERNEL = "hub_cpu_gemm"
DEQUANT_LINEAR = "dequant_linear"
FUSED = "fused"
UNKNOWN = "unknown"

_C_RULE_VERSION = "0.50."
_MMA_DEPTH = 64
"""K must be a multiple of this for its tensor-core kernels."""


def gemm_kernel(problem: Problem, scheme: FourBit, device: Device) -> str:
    """Kernel that `gemm_4bit` runs: "simt", "mma" or "dequant_linear"; bitsandbytes must be importable.

    "fused" when its version is another than the C++ rule was read in, "unknown" when even the Python rule has moved.
    """
    if not device.is_gpu:
        return DEQUANT_LINEAR
    ops = importlib.import_module("bitsandbytes.backends.cuda.ops")
    use_fused = getattr(ops, "_gemm_4bit_use_custom_fn", None)
    largest = getattr(ops, "_gemm_4bit_custom_max_m", None)
    if use_fused is None or largest is None:
        return UNKNOWN
    if largest < problem.M or problem.K % scheme.group:
        return DEQUANT_LINEAR
    if not use_fused(device.index, TORCH_DTYPES[scheme.dtype], problem.M, problem.N, problem.K):
        return DEQUANT_LINEAR
    if device.is_rocm:
        return SIMT
    if not importlib.import_module("bitsandbytes").__version__.startswith(_C_RULE_VERSION):
        return FUSED
    return fused_kernel(problem, scheme.dtype, device.arch, device.compute_units)


def fused_kernel(problem: Problem, dtype: DType, arch: str, multiprocessors: int) -> str:
    """The C++ choice on NVIDIA GPUs among the fused kernels, "simt" or "mma"; `arch` as "sm90".

    An MMA tile is 32 rows of X by 64 of W; SIMT is kept where such tiles would fill too few multiprocessors.
    """
    m, n, k = problem.M, problem.N, problem.K
    major, minor = divmod(int(arch.removeprefix("sm")), 10)
    has_mma = major >= 8 or ((major, minor) == (7, 5) and dtype is DType.FP16)
    if dtype is DType.FP32 or m <= 3 or k % _MMA_DEPTH or not has_mma:
        return SIMT
    tiles = -(-m // 32) * -(-n // 64)
    hbm = (major, minor) in ((8, 0),) or major in (9, 10)
    fast_gddr = (major, minor) in ((8, 6), (8, 9), (12, 0)) and multiprocessors >= 48
    wide_gddr = {(8, 9): 60, (12, 0): 48, (12, 1): 48}.get((major, minor))
    prefers_simt = (
        (m == 4 and fast_gddr)
        or (m <= 8 and tiles * 3 <= multiprocessors * 2)
        or (hbm and m == 4 and tiles <= multiprocessors)
        or (wide_gddr is not None and multiprocessors >= wide_gddr and m <= 6 and tiles >= multiprocessors)
        or (major >= 8 and not hbm and k > n and m <= 17 and tiles * 3 < multiprocessors)
        or (m <= 16 and tiles * 4 <= multiprocessors)
        or (m <= 32 and tiles * 8 <= multiprocessors)
    )
    return SIMT if prefers_simt else MMA


def gemv_kernel(device: Device) -> str:
    """Kernel that `gemv_4bit` runs; bitsandbytes must be importable."""
    if device.is_gpu:
        return GEMV
    ops = importlib.import_module("bitsandbytes.backends.cpu.ops")
    return HUB_KERNEL if getattr(ops, "gemm_4bit_forward_kernel", None) is not None else CPU_GEMM


def cpu_has_gemv() -> bool:
    """Whether its CPU kernel exists here; elsewhere its GEMV is dequantize + linear."""
    query = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(query is not None and query())


def cpu_misreads_absmax(problem: Problem, scheme: FourBit) -> bool:
    """Whether its AVX-512 dequantizer takes wrong scales: it starts every row of W at a new block.

    That is right only when K % group == 0, or there is but one block. Rows that are no multiple of its vector of 16 go
    through other code, which is right (csrc/cpu_ops.cpp, which asks the CPU), and so do blocks of 2048 and more where
    its Python sees AVX-512 (backends/cpu/ops.py, which asks torch; ATEN_CPU_CAPABILITY makes torch deny it).
    """
    torch_has = torch.backends.cpu.get_cpu_capability() == "AVX512"
    flags = cpu_info.flags()
    cpu_has = "avx512f" in flags if flags else torch_has
    vectorized = cpu_has and problem.K % 16 == 0 and not (torch_has and scheme.group >= 2048)
    return vectorized and problem.K % scheme.group != 0 and scheme.group < problem.N * problem.K
