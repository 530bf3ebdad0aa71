"""Why a provider does not run on a device. The reasons are written once, here; nothing here imports torch.

A `Need` says why a shipped provider does not run on a CPU, without importing the provider, which takes seconds. It
holds for the problems of `shapes/schemes/probes.py`, is "" where the provider runs, and None where only the provider
knows.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from ..shapes.device import Device
from ..shapes.gpu_architectures import ARCHITECTURES, architecture
from . import cpu_info
from .fourbit import cpu_library

Need = Callable[[Device], str | None]

NOT_ON_CPU = "Triton kernels need a GPU"
"""Why a Triton provider does not run there."""

ONLY_SM90 = "torch multiplies with blockwise FP8 scales on sm90 only (cuBLAS)"

WRITTEN_FOR_SM90 = "written in CUDA C++ for sm90"


def fp8_missing(device: Device) -> str:
    """Say why Triton kernels that multiply FP8 cannot run on a device; empty when they can."""
    if not device.is_gpu:
        return NOT_ON_CPU
    if not architecture(device.arch).multiplies_fp8:
        return f"{device.arch} has no FP8 matrix instructions: needs sm89 or newer, gfx942, gfx950 or gfx12"
    return ""


def block_scaled_missing(device: Device) -> str:
    """Say why torch cannot multiply with MX scales on a device; empty when it can."""
    if device.is_gpu and architecture(device.arch).mx_library:
        return ""
    able = ", ".join(row.name for row in ARCHITECTURES.values() if row.mx_library)
    return f"needs block-scaled FP8 matrix units ({able}); this is {device.arch}"


@dataclass(frozen=True, slots=True)
class Package:
    """A package that a provider calls, and where it comes from."""

    name: str
    source: str

    def missing(self) -> str:
        """Return that it is not installed; "" when it is."""
        return "" if importlib.util.find_spec(self.name) else f"{self.name} is not installed: {self.source}"

    def on_cpu(self, device: Device) -> str | None:
        """What a provider needs whose kernels are for GPUs: it says itself what else is in its way."""
        return self.missing() or None


BITSANDBYTES = Package("bitsandbytes", "pip install 'rooflens[upstream]'")
TORCHAO = Package("torchao", "pip install torchao")
AITER_A16W8 = Package("aiter", "see https://github.com/ROCm/aiter")
AITER_MX = Package("aiter", "see https://github.com/ROCm/aiter/pull/3783")
PRIMUS_TURBO = Package("primus_turbo", "see https://github.com/AMD-AGI/Primus-Turbo")

NO_BF16_CPU = "its GEMV needs a CPU with AVX-512 BF16"
"""Without it, bitsandbytes' GEMV is dequantize + linear."""


def only_rocm(library: str) -> str:
    """Say that a BLAS library is one of ROCm."""
    return f"{library} is a library of ROCm: needs an AMD GPU and a torch built for it"


LT_NEEDS_GPU = "cuBLASLt and hipBLASLt need a GPU"


def _always(reason: str, device: Device) -> str:
    return reason


NOTHING = partial(_always, "")
GPU = partial(_always, NOT_ON_CPU)
ROCBLAS = partial(_always, only_rocm("rocBLAS"))
HIPBLASLT = partial(_always, only_rocm("hipBLASLt"))
BLAS_LT = partial(_always, LT_NEEDS_GPU)
SM90 = partial(_always, ONLY_SM90)
CUDA_SM90 = partial(_always, WRITTEN_FOR_SM90)


def compiler(device: Device) -> str | None:
    """A C++ compiler."""
    return "" if cpu_library.compiler_command() else cpu_library.NO_COMPILER


def bitsandbytes(device: Device) -> str | None:
    """Its package."""
    return BITSANDBYTES.missing()


def bitsandbytes_gemv(device: Device) -> str | None:
    """Its package, and the instructions of its GEMV."""
    if missing := BITSANDBYTES.missing():
        return missing
    flags = cpu_info.flags()
    return ("" if "avx512_bf16" in flags else NO_BF16_CPU) if flags else None


def grouped_mm(device: Device) -> str | None:
    """A torch whose grouped product has a kernel for CPUs: not all versions do."""
    try:
        major, minor, *_ = version("torch").split(".")
    except PackageNotFoundError:  # torch from a source tree
        return None
    return "" if (int(major), int(minor)) >= (2, 13) else None
