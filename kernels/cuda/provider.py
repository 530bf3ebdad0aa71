"""Kernels in CUDA C++ for sm90: what their providers share.

Compiled at run time by NVRTC, each as one file: `headers` and the kernel's own source.
"""

import hashlib
import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, TypeAlias

import torch

from ..geometry import Geometry, combined
from ..jit.call import KernelCall, combined_hash, compile_calls
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


Part: TypeAlias = "tuple[LaunchPlan, Geometry] | list[KernelCall]"
"""Of a launch: the provider's own kernel, or kernels of Triton."""


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

    def prepared(
        self,
        parts: Sequence[Part],
        outputs: tuple[torch.Tensor, ...],
        config: Config,
        refresh: Callable[[], object] | None = None,
    ) -> Launch:
        """Compile the parts and run each once, in order; return the launch of all, `refresh` (see `Launch`) first."""
        runs: list[Callable[[], object]] = [refresh] if refresh else []
        kernels: list[str] = []
        codes: list[str] = []
        multiplying: list[Geometry] = []
        beside: list[Geometry] = []
        for part in parts:
            if isinstance(part, tuple):
                plan, geometry = part
                call, code = self.compiled(plan, outputs[0].device)
                call()
                runs.append(call)
                codes.append(code)
                kernels.append(self.kernel)
                multiplying.append(geometry)
            elif part:
                calls = compile_calls(part)
                runs.append(calls.run)
                codes.append(calls.artifact)
                kernels += calls.kernels
                for one, described in zip(part, calls.described, strict=True):
                    (multiplying if one.tiling else beside).append(described)

        def run_all() -> None:
            for run in runs:
                run()

        return Launch(
            runs[0] if len(runs) == 1 else run_all,
            outputs if len(outputs) > 1 else outputs[0],
            dict(config),
            tuple(kernels),
            artifact=combined_hash(codes),
            geometry=combined(multiplying, beside),
            refresh=refresh,
        )


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
        return self.prepared([(plan, self.geometry(inputs, config, plan))], (output,), config)


@cache
def build(source: str, constants: tuple[tuple[str, int], ...]) -> bytes:
    """Machine code of a kernel with these constants; CudaError when NVRTC rejects it."""
    options = ["--gpu-architecture=sm_90a", "--std=c++17", *(f"-D{name}={value}" for name, value in constants)]
    return compile_cubin(source, options)[0]
