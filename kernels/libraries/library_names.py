"""Which library multiplies when torch is asked for a product: its name and version."""

import re
import warnings
from collections.abc import Callable
from functools import cache

import torch

from ...shapes.device import Device
from ...shapes.scheme import DType
from .lt_library import lt_version

_LIBRARIES = {"cublas": "rocBLAS", "cublaslt": "hipBLASLt", "ck": "Composable Kernel"}
"""torch's names of ROCm's BLAS libraries -> theirs."""

_FELL_BACK = "recover by calling"
"""In torch's warning when hipBLASLt (cuBLASLt) takes no part of a call, and rocBLAS (cuBLAS) runs in its place."""


def library_that_ran(call: Callable[[], object]) -> str:
    """Run `call` once on an AMD GPU; return the BLAS library that multiplied: torch's preference, or its fallback."""
    preferred = str(torch.backends.cuda.preferred_blas_library()).rpartition(".")[2].lower()
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
    finally:
        torch.set_warn_always(always)
    if any(_FELL_BACK in str(warning.message) for warning in caught):
        return _LIBRARIES["cublas"]
    return _LIBRARIES.get(preferred, preferred)


def library_of(device: Device, call: Callable[[], object], dtype: DType, form: str) -> str:
    """Name the library behind `call`, a product of matrices of `dtype` in a form of `blas_forms`.

    On AMD GPUs it is seen by running `call`; on NVIDIA GPUs torch has only cuBLAS, which cuBLASLt is a part of, with
    its version; on CPUs it follows from the form and the type.
    """
    if device.is_rocm:
        return library_that_ran(call)
    if device.is_gpu:
        return f"cuBLAS {lt_version()}".strip()
    if form == "native":
        return "torch"
    if dtype is DType.FP32 or form.startswith("fp32"):
        return _built_with(r"Math Kernel Library Version ([\d.]+)", "MKL") or _built_with(r"BLAS_INFO=(\w+)", "BLAS")
    return _built_with(r"MKL-DNN v([\d.]+)", "oneDNN") if onednn_has(dtype) else "torch"


def onednn_has(dtype: DType) -> bool:
    """Whether oneDNN serves this 16-bit type on this CPU; without it torch multiplies in a plain loop."""
    query = getattr(torch.ops.mkldnn, f"_is_mkldnn_{dtype}_supported", None)
    return bool(torch.backends.mkldnn.is_available() and query is not None and query())


@cache
def _built_with(pattern: str, name: str) -> str:
    """Return `name` with what `pattern` finds in torch's description of its build, "" where it finds nothing."""
    found = re.search(pattern, torch.__config__.show())
    return f"{name} {found[1]}" if found else ""
