"""From arguments to a launch: the compilation of a kernel, and a closure that only enqueues it."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import triton

from ...shapes.errors import RooflensError
from ..geometry import Geometry, Grid, Tiling, geometry_of

INTERPRETED = bool(triton.knobs.runtime.interpret)
"""Triton runs kernels in its interpreter (TRITON_INTERPRET=1 when it was imported): correctness checks on the CPU."""

POINTERS = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.int32: "*i32",
    torch.uint8: "*u8",
    torch.float8_e4m3fn: "*fp8e4nv",
    torch.float8_e4m3fnuz: "*fp8e4b8",
    torch.float8_e5m2: "*fp8e5",
    torch.float8_e5m2fnuz: "*fp8e5b16",
}
"""torch type -> Triton's name of a pointer to it."""

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class CompiledLaunch:
    """A closure that enqueues one kernel, the kernel's name and the hash of its machine code ("" when interpreted).

    grid  workgroups of the launch; compiled  Triton's compiled kernel, None when interpreted
    """

    run: Callable[[], None]
    kernel: str
    artifact: str
    grid: Grid = (1, 1, 1)
    compiled: Any = None

    def geometry(self, tiling: Tiling | None = None) -> Geometry:
        """Describe what it launches; `tiling` of a kernel that multiplies."""
        return geometry_of(self.grid, self.compiled, tiling)


def compile_launch(
    kernel: Any,
    grid: Grid,
    arguments: Mapping[str, Any],
    constants: Mapping[str, Any],
    options: Mapping[str, int],
) -> CompiledLaunch:
    """Compile `kernel` for its arguments, run it once, and return how to run it again without Triton's argument checks.

    arguments  runtime arguments by parameter name: tensors, ints, or None for an operand that is absent
    constants  constexpr arguments; options  num_warps, num_stages and what else the backend knows
    The pointers are those of the tensors now; the closure keeps the tensors alive.
    """
    name = kernel.fn.__name__
    if INTERPRETED:

        def interpret() -> None:
            kernel[grid](**arguments, **constants)

        return CompiledLaunch(interpret, name, "", grid)
    compiled = kernel[grid](**arguments, **constants, **options)
    if compiled is None:  # a hook (a profiler's, say) took the launch over
        raise RooflensError(f"{name}: Triton compiled nothing; unset triton.knobs.runtime.jit_cache_hook")
    # The launcher takes every parameter in order, constexpr ones included (Triton 3.3 to 3.9).
    everything = [{**arguments, **constants}[parameter] for parameter in kernel.arg_names]
    enqueue = compiled[grid]

    def launch() -> None:
        enqueue(*everything)

    return CompiledLaunch(launch, name, artifact_hash(compiled), grid, compiled)


def artifact_hash(compiled: Any) -> str:
    """16 hex digits over the machine code (cubin or hsaco) of a compiled kernel."""
    code = compiled.asm.get("cubin") or compiled.asm.get("hsaco") or b""
    return hashlib.sha256(code).hexdigest()[:_DIGITS] if code else ""
