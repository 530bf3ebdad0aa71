"""Kernel calls as values: compiled and launched on tensors, or described for an ahead-of-time compile.

Both start from the same value, made of real tensors or of those of torch's "meta" device, which have a type and a shape
but no memory: what is compiled ahead of time is what a launch compiles.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..aot import BuildRequest, kernel_path, large_operands
from ..geometry import Geometry, Grid, Tiling, combined
from ..provider import Config, Launch
from .launch import POINTERS, compile_launch


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One launch of a jit kernel; fields as `compile_launch` takes them.

    tiling   what a kernel that multiplies does with the grid
    decoded  as in `BuildRequest`, where there is no tiling
    """

    kernel: Any
    grid: Grid
    arguments: Mapping[str, Any]
    constants: Mapping[str, Any]
    options: Mapping[str, int]
    tiling: Tiling | None = None
    decoded: int | None = None

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Operands in memory, by parameter name."""
        return {name: value for name, value in self.arguments.items() if isinstance(value, torch.Tensor)}

    def request(self) -> BuildRequest:
        """What to compile ahead of time."""
        tensors = self.tensors
        types = {name: POINTERS[tensor.dtype] for name, tensor in tensors.items()}
        # the JIT looks at the size of the whole storage that a slice belongs to
        large = large_operands({name: tensor.untyped_storage().nbytes() for name, tensor in tensors.items()})
        arguments = {**self.arguments, **types}
        return BuildRequest(
            kernel_path(self.kernel), arguments, self.constants, self.options, large,
            decoded=self.tiling.decoded_per_step if self.tiling else self.decoded,
            decoded_weights=self.tiling.decoded_weights if self.tiling else None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class CompiledCalls:
    """What enqueues some calls in order, the names of their kernels, and a hash of their code ("" when interpreted).

    `geometry` is that of the kernels that multiply, or of the only kernel; `described` that of each of them.
    """

    run: Callable[[], None]
    kernels: tuple[str, ...]
    artifact: str
    geometry: Geometry | None
    described: tuple[Geometry, ...]


def compile_calls(calls: Sequence[KernelCall]) -> CompiledCalls:
    """Compile each call and run it once, in order."""
    launches = [compile_launch(call.kernel, call.grid, call.arguments, call.constants, call.options) for call in calls]
    runs = [launch.run for launch in launches]

    def run() -> None:
        for one in runs:
            one()

    described = tuple(launch.geometry(call.tiling) for launch, call in zip(launches, calls, strict=True))
    multiplying = [geometry for geometry, call in zip(described, calls, strict=True) if call.tiling]
    beside = [geometry for geometry, call in zip(described, calls, strict=True) if not call.tiling]
    return CompiledCalls(
        runs[0] if len(runs) == 1 else run,
        tuple(launch.kernel for launch in launches),
        combined_hash([launch.artifact for launch in launches]),
        combined(described) if len(described) == 1 else combined(multiplying, beside),
        described,
    )


def launch_calls(
    calls: Sequence[KernelCall],
    outputs: tuple[torch.Tensor, ...],
    config: Config,
    refresh: Callable[[], object] | None = None,
) -> Launch:
    """Return the launch that runs all calls in order; `refresh` (see `Launch`) comes first."""
    compiled = compile_calls(calls)
    run = compiled.run
    if refresh:

        def run() -> None:
            refresh()
            compiled.run()

    output = outputs if len(outputs) > 1 else outputs[0]
    artifact, geometry = compiled.artifact, compiled.geometry
    return Launch(run, output, dict(config), compiled.kernels, artifact=artifact, geometry=geometry, refresh=refresh)


def requests(calls: Iterable[KernelCall]) -> list[BuildRequest]:
    """Describe the calls, equal ones once."""
    found: list[BuildRequest] = []
    for call in calls:
        request = call.request()
        if request not in found:
            found.append(request)
    return found


def moved_bytes(calls: Iterable[KernelCall]) -> int:
    """Bytes that the calls read and write: every operand once per call; a GEMM's repeated reads are left to caches."""
    return sum(tensor.nbytes for call in calls for tensor in call.tensors.values())


def touched_bytes(calls: Iterable[KernelCall]) -> int:
    """Bytes of distinct memory behind the calls."""
    return sum({id(tensor): tensor.nbytes for call in calls for tensor in call.tensors.values()}.values())


def combined_hash(hashes: Sequence[str]) -> str:
    """Return the only hash, or one over all of several; "" where one is missing."""
    if len(hashes) == 1:
        return hashes[0]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()[:16] if hashes and all(hashes) else ""
