"""rocBLAS and hipBLASLt: references that multiply with one of ROCm's libraries, and which of them really ran.

The choice is a setting of the process, `torch.backends.cuda.preferred_blas_library`, under its CUDA names: "cublas" is
rocBLAS, "cublaslt" hipBLASLt. Each launch of such a reference sets and restores it, which costs the host some
microseconds.
"""

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from ...shapes.problem import Problem
from ..needs import only_rocm
from ..provider import Config, InputsT, Launch, SchemeT, Support
from .dense import DenseBlas
from .library_names import library_that_ran


class ThroughLibrary(DenseBlas[SchemeT, InputsT]):
    """Mixin before a reference: the same through `library`, whatever torch would choose."""

    library: ClassVar[str]
    torch_library: ClassVar[str]

    def supports(self, problem: Problem, scheme: SchemeT, device: Device) -> Support:
        """What the reference takes, on AMD GPUs only."""
        return super().supports(problem, scheme, device) if device.is_rocm else Support.no(only_rocm(self.library))

    def prepare(self, inputs: InputsT, config: Config | None = None) -> Launch:
        """As the reference. Raises RooflensError when torch runs another library on this GPU or for this problem."""
        launch = super().prepare(inputs, config)
        gemm, prefer = launch.run, torch.backends.cuda.preferred_blas_library
        before = prefer()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns when it overrides the choice; the error below says so
            wanted = prefer(self.torch_library)
        try:
            ran = library_that_ran(gemm)
        finally:
            prefer(before)
        if ran != self.library:
            where = f"on {inputs.device.name}, but {ran} for {inputs.problem}"
            raise RooflensError(f"{self.name}: torch does not use {self.library} {where}; exclude it")

        def run() -> None:
            before = prefer()
            prefer(wanted)
            try:
                gemm()
            finally:
                prefer(before)

        launch.run, launch.config = run, {**launch.config, "library": ran}
        return launch


def through_libraries(reference: type[DenseBlas[Any, Any]], name: str) -> list[DenseBlas[Any, Any]]:
    """Return `reference` through rocBLAS and through hipBLASLt; `name` has a {} where theirs stand."""
    found = []
    for library, torch_library in (("rocBLAS", "cublas"), ("hipBLASLt", "cublaslt")):
        members = {
            "name": name.format(library.lower()),
            "library": library,
            "torch_library": torch_library,
            "__module__": reference.__module__,
        }
        make: Callable[[], DenseBlas[Any, Any]] = type(library, (ThroughLibrary, reference), members)
        found.append(make())
    return found
