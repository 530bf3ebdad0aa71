"""The software of this environment: versions, what torch was built for, who owns the module `triton`, the compiler."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions
from importlib.metadata import version as metadata_version

import torch

from .. import __version__
from ..kernels.fourbit import cpu_build

SHOWN_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables that hide or renumber GPUs."""

TIMING_VARIABLES = (
    "TRITON_INTERPRET",
    "CUDA_LAUNCH_BLOCKING",
    "HIP_LAUNCH_BLOCKING",
    "AMD_SERIALIZE_KERNEL",
    "AMD_SERIALIZE_COPY",
    "NVIDIA_TF32_OVERRIDE",
)
"""Variables that make timings mean something else."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed package of some name and version."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Software:
    """Versions are empty where a package is missing. `torch_build` is "CUDA 13.0", "ROCm 7.1" or "CPU only".

    `triton_owners` are the distributions that installed files into the module `triton`: more than one means that the
    last one overwrote the others. `compiler` is the first line of its version. `variables` are those that are set.
    """

    python: str
    rooflens: str
    torch: str
    torch_build: str
    triton: str
    bitsandbytes: str
    triton_owners: tuple[Distribution, ...]
    compiler: str
    variables: dict[str, str]
    ray: str = ""


def describe() -> Software:
    """Look at this environment."""
    return Software(
        python=platform.python_version(),
        rooflens=__version__,
        torch=torch.__version__,
        torch_build=torch_build(),
        triton=_triton_version(),
        bitsandbytes=version("bitsandbytes"),
        triton_owners=owners("triton"),
        compiler=_compiler(),
        variables={name: os.environ[name] for name in (*SHOWN_VARIABLES, *TIMING_VARIABLES) if name in os.environ},
        ray=version("ray"),
    )


def version(package: str) -> str:
    """Version of an installed package; "" without it."""
    try:
        return metadata_version(package)
    except PackageNotFoundError:
        return ""


def torch_build() -> str:
    """Say what this torch was built for."""
    if torch.version.hip:
        return f"ROCm {torch.version.hip}"
    return f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"


def owners(module: str) -> tuple[Distribution, ...]:
    """Distributions that hold files of a top-level module."""
    return tuple(Distribution(name, version(name)) for name in sorted(set(packages_distributions().get(module, ()))))


def _triton_version() -> str:
    """Version that the module itself tells: that of the distribution whose files are really there."""
    try:
        import triton
    except ImportError:
        return ""
    return str(triton.__version__)


def _compiler() -> str:
    try:
        return cpu_build.compiler_version()
    except cpu_build.BuildError:
        return ""
