"""One kernel launch as a value, which is either compiled and run, or described for compiling without the device.

Both start from the same value: what is compiled ahead of time is what a launch compiles.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..aot import Request, kernel_path, large_operands
from ..geometry import Tiling
from ..provider import Config, Launch
from ..triton_launch import POINTERS, compile_launch, main_geometry
from ..triton_scratch import provide_scratch


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel with its arguments (tensors, on the device "meta" when nothing is to run, and ints) and its grid.

    `tiling` is what a kernel that multiplies does with that grid.
    """

    kernel: Any
    grid: tuple[int, int, int]
    arguments: Mapping[str, Any]
    constants: Mapping[str, Any]
    options: Mapping[str, int]
    tiling: Tiling | None = None

    def request(self) -> Request:
        """Describe it for `aot_compiler.compile_in_child`."""
        arguments = {
            name: POINTERS[value.dtype] if isinstance(value, torch.Tensor) else value
            for name, value in self.arguments.items()
        }
        # the JIT looks at the size of the whole storage that a slice belongs to
        large = large_operands(
            {
                name: value.untyped_storage().nbytes()
                for name, value in self.arguments.items()
                if isinstance(value, torch.Tensor)
            }
        )
        return Request(kernel_path(self.kernel), arguments, self.constants, self.options, large)


def launch_all(calls: Sequence[Call], output: torch.Tensor | tuple[torch.Tensor, ...], config: Config) -> Launch:
    """Compile every call, run it once, and return the launch that runs all of them in order."""
    provide_scratch()
    launches = [compile_launch(call.kernel, call.grid, call.arguments, call.constants, call.options) for call in calls]
    runs: list[Callable[[], None]] = [launch.run for launch in launches]

    def run() -> None:
        for one in runs:
            one()

    artifact = " ".join(dict.fromkeys(launch.artifact for launch in launches))
    return Launch(
        runs[0] if len(runs) == 1 else run,
        output,
        dict(config),
        tuple(one.kernel for one in launches),
        artifact=artifact,
        geometry=main_geometry(list(zip(launches, (call.tiling for call in calls), strict=True))),
    )


def requests(calls: Sequence[Call]) -> list[Request]:
    """Describe the calls, equal ones once."""
    found: list[Request] = []
    for call in calls:
        request = call.request()
        if request not in found:
            found.append(request)
    return found
