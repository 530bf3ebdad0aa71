"""The software of this environment: versions, what torch was built for, who owns the module `triton`, the compiler.

Nothing is imported for that: torch alone takes seconds.
"""

import os
import platform
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions
from importlib.metadata import version as metadata_version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from ... import __version__
from ...kernels.fourbit import cpu_library

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
        torch=_torch_version().__version__,
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
    version = _torch_version()
    if version.hip:
        return f"ROCm {version.hip}"
    return f"CUDA {version.cuda}" if version.cuda else "CPU only"


@cache
def _torch_version() -> ModuleType:
    """The module torch.version, which needs nothing of torch."""
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    spec = spec_from_file_location("torch_version", Path(torch.origin).with_name("version.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def owners(module: str) -> tuple[Distribution, ...]:
    """Distributions that hold files of a top-level module."""
    file = re.compile(rf"^{re.escape(module)}/", re.MULTILINE)
    found = {
        Distribution(one.name, one.version)
        for one in distributions()
        if module in (one.read_text("top_level.txt") or "").split() or file.search(one.read_text("RECORD") or "")
    }
    return tuple(sorted(found, key=lambda one: one.name))


def _triton_version() -> str:
    """Version that the module itself tells: that of the distribution whose files are really there."""
    triton = find_spec("triton")
    if triton is None or triton.origin is None:
        return ""
    match = re.search(r"""^__version__ = ["'](.+)["']""", Path(triton.origin).read_text("utf-8"), re.MULTILINE)
    return match[1] if match else version("triton")


def _compiler() -> str:
    try:
        return cpu_library.compiler_version()
    except cpu_library.BuildError:
        return ""
