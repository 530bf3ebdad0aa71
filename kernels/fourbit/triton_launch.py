"""From operands to a launch: arguments of a kernel, its compilation, and a closure that only enqueues it."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import triton

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from ..inputs import FourBitInputs

INTERPRETED = bool(triton.knobs.runtime.interpret)
"""Triton runs kernels in its interpreter (TRITON_INTERPRET=1 when it was imported): correctness checks on the CPU."""

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class CompiledLaunch:
    """A closure that enqueues one kernel, the kernel's name and the hash of its machine code ("" when interpreted)."""

    run: Callable[[], None]
    kernel: str
    artifact: str


def compile_launch(
    kernel: Any,
    grid: tuple[int, int, int],
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

        return CompiledLaunch(interpret, name, "")
    compiled = kernel[grid](**arguments, **constants, **options)
    if compiled is None:  # a hook (a profiler's, say) took the launch over
        raise RooflensError(f"{name}: Triton compiled nothing; unset triton.knobs.runtime.jit_cache_hook")
    # The launcher takes every parameter in order, constexpr ones included (Triton 3.3 to 3.9).
    everything = [{**arguments, **constants}[parameter] for parameter in kernel.arg_names]
    enqueue = compiled[grid]

    def launch() -> None:
        enqueue(*everything)

    return CompiledLaunch(launch, name, artifact_hash(compiled))


def artifact_hash(compiled: Any) -> str:
    """16 hex digits over the machine code (cubin or hsaco) of a compiled kernel."""
    code = compiled.asm.get("cubin") or compiled.asm.get("hsaco") or b""
    return hashlib.sha256(code).hexdigest()[:_DIGITS] if code else ""


def target_isa(device: Device) -> str:
    """Which instructions the kernels may use on this device; see `triton_decode.byte_permute`."""
    if INTERPRETED:
        return "ptx_emulated"
    return arch_isa(device.arch)


def arch_isa(arch: str) -> str:
    """Return the instruction set of a GPU architecture, as `triton_decode.byte_permute` names it."""
    if not arch.startswith("gfx"):
        return "ptx"
    if not arch.startswith("gfx9"):
        return "rdna"
    return "cdna_bf16" if arch == "gfx950" else "cdna"


def packed_view(packed: torch.Tensor, words: bool) -> tuple[torch.Tensor, bool]:
    """Packed weights as int32 when they consist of whole, aligned words (and `words` is wanted), else as bytes."""
    words = words and packed.numel() % 4 == 0 and packed.data_ptr() % 4 == 0
    return (packed.view(torch.int32) if words else packed), words


def scale_operands(
    inputs: FourBitInputs,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """absmax, q, nested_code and nested_offset as `triton_tiles.load_absmax` wants them."""
    if inputs.nested is None:
        return inputs.absmax, None, None, None
    return inputs.nested.scale, inputs.nested.q, inputs.nested.code, inputs.nested.offset
