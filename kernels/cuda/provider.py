"""Kernels in CUDA C++ for sm90: what their providers share.

Compiled at run time by NVRTC, each as one file: `headers` and the kernel's own source.
"""

import hashlib
import inspect
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import torch

from ..geometry import Geometry
from ..libraries.nvrtc import Argument, CudaCall, CudaKernel, compile_cubin
from ..provider import Config, InputsT, Launch, Provider, SchemeT

SOURCES = ("sm90.cuh", "stream_k.cuh", "turns.cuh", "wgmma.cuh", "wgmma_16.cuh")

SHARED_BYTES = 227 << 10
"""Shared memory that a block can have on sm90."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """One launch: constants of the source, grid, threads and shared memory of a block, arguments.

    resident  blocks that an SM holds at once
    """

    constants: Mapping[str, int]
    grid: int
    threads: int
    shared_bytes: int
    arguments: Sequence[Argument]
    resident: int = 1


class CudaProvider(Provider[SchemeT, InputsT]):
    """A kernel named `kernel` in `sources`."""

    kernel: ClassVar[str]
    headers: ClassVar[tuple[str, ...]]
    """Of `SOURCES`."""

    def source(self) -> str:
        """CUDA C++, without its constants."""
        here, own = Path(__file__).parent, Path(inspect.getfile(type(self))).parent
        return "".join(
            (folder / name).read_text(encoding="utf-8")
            for folder, names in ((here, self.headers), (own, self.sources))
            for name in names
        )

    def compiled(self, plan: LaunchPlan, device: torch.device) -> tuple[CudaCall, str]:
        """Return what launches `plan` on a device, and a hash of its machine code."""
        with torch.cuda.device(device):
            cubin = build(self.source(), tuple(plan.constants.items()))
            call = CudaKernel(cubin, self.kernel, plan.shared_bytes).call(plan.grid, plan.threads, plan.arguments)
        return call, hashlib.sha256(cubin).hexdigest()[:16]


class CudaGemm(CudaProvider[SchemeT, InputsT]):
    """One launch of the kernel is all. A subclass defines `plan` and `geometry`."""

    @abstractmethod
    def plan(self, inputs: InputsT, output: torch.Tensor, config: Config) -> LaunchPlan:
        """Return the launch that writes `output`."""

    @abstractmethod
    def geometry(self, inputs: InputsT, config: Config, plan: LaunchPlan) -> Geometry:
        """Return how `plan` divides the work."""

    def prepare(self, inputs: InputsT, config: Config | None = None) -> Launch:
        """Compile, arrange the operands, allocate, and launch once."""
        config, (output,) = config or self.default_config(inputs), inputs.empty_outputs()
        plan = self.plan(inputs, output, config)
        run, artifact = self.compiled(plan, output.device)
        run()
        geometry = self.geometry(inputs, config, plan)
        return Launch(run, output, config, (self.kernel,), artifact=artifact, geometry=geometry)


@cache
def build(source: str, constants: tuple[tuple[str, int], ...]) -> bytes:
    """Machine code of a kernel with these constants; CudaError when NVRTC rejects it."""
    options = ["--gpu-architecture=sm_90a", "--std=c++17", *(f"-D{name}={value}" for name, value in constants)]
    return compile_cubin(source, options)[0]
