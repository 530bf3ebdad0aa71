"""What a reader must know of the machine and its software to repeat a run: flat text, stored in run.json."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

from ..shapes.device import Device

PACKAGES = ("rooflens", "torch", "triton", "numpy", "bitsandbytes")

VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "NVIDIA_TF32_OVERRIDE",
)
"""Environment variables that change timings, recorded when they are set."""


def environment(device: Device) -> dict[str, str]:
    """Collect versions, load, threads and the variables that matter, each as text; unknown is left out."""
    record = {
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: found for name in PACKAGES if (found := _version(name))},
        "host load (1 min)": f"{os.getloadavg()[0]:.2f}",
        "cpu threads": str(torch.get_num_threads()),
    }
    if torch.version.cuda:
        record["CUDA"] = torch.version.cuda
    if torch.version.hip:
        record["HIP"] = torch.version.hip
    if device.is_gpu:
        record["TF32"] = f"matmul precision {torch.get_float32_matmul_precision()}"
    record |= {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return record


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
