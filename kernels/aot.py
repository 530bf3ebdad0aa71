"""Ahead-of-time compiles, for GPUs that this machine does not have: requests and results.

The result is evidence only if it is what a launch would compile: `specialize` mirrors the JIT, which marks pointers and
sizes that are multiples of 16, folds sizes of 1 and absent operands into constants, and marks for AMD's backend which
operands are smaller than 2 GiB. `isa.aot_compiler` compiles in a child process.
"""

import importlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..shapes.errors import unknown_name
from ..shapes.gpu_architectures import architecture
from ..shapes.verdict import Verdict

ARCHES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "sm80", "sm90", "sm100")
"""Architectures that kernels are compiled for in the tests."""

KNOWN_ARCHES = (*ARCHES, "sm89", "sm120")
"""Architectures that kernels can be compiled for."""

LARGE_BYTES = 1 << 31
"""Operands of so many bytes are out of reach of AMD's 32-bit buffer offsets; the JIT looks at each tensor's size."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One kernel to compile.

    kernel     "module:attribute" of the jit function
    arguments  runtime arguments by parameter name: a pointer type ("*bf16"), a number, or None for an absent operand
    constants  constexpr arguments; options  num_warps, num_stages and what else the backend knows
    large      names of the pointers to LARGE_BYTES or more
    decoded    weight elements that one program decodes per iteration of its main loop; None: it decodes none
    decoded_weights  those of the whole launch, padding and every row of tiles included; None: unknown, or none
    part       which part of the launch this is, where one kernel serves several: "wgrad", say
    """

    kernel: str
    arguments: Mapping[str, str | int | float | None]
    constants: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    large: Sequence[str] = ()
    decoded: int | None = None
    decoded_weights: int | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class Build:
    """The result of a request. Everything but verdict and reason is present only when the verdict is passed.

    registers      vector registers per lane; spills  bytes of scratch memory per lane
    shared_bytes   shared memory (LDS) per program
    assembly       PTX or AMD GCN text
    machine_code   SASS of NVIDIA binaries; GCN text already is the machine code
    warps          warps (waves) per program, those of specialized warps included
    name           of the kernel; triton  version of the compiler
    """

    verdict: Verdict
    reason: str = ""
    registers: int = 0
    spills: int = 0
    shared_bytes: int = 0
    assembly: str = ""
    machine_code: str = ""
    warps: int = 0
    name: str = ""
    triton: str = ""


def check_arch(arch: str) -> str:
    """Return `arch`; raise UsageError when it is unknown."""
    if arch not in KNOWN_ARCHES:
        raise unknown_name("architecture", arch, list(KNOWN_ARCHES))
    return arch


def kernel_path(kernel: Any) -> str:
    """Return "module:attribute" of a jit function, as a BuildRequest names it."""
    return f"{kernel.fn.__module__}:{kernel.fn.__name__}"


def find_kernel(path: str) -> Any:
    """Return the jit function of "module:attribute"."""
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def large_operands(sizes_bytes: Mapping[str, int]) -> tuple[str, ...]:
    """Names of the operands that are LARGE_BYTES or more."""
    return tuple(name for name, size in sizes_bytes.items() if size >= LARGE_BYTES)


def diagnosis(text: str) -> str:
    """Return the last error that the compiler wrote, with file and line where it names them, "" when it wrote none.

    Folders and temporary files are omitted: the same mistake has the same text everywhere.
    """
    found = re.findall(r"^(?:\S*?([\w.]+\.py):(\d+):\d+: |.*?)\berror\s*: (.+)$", text, re.MULTILINE)
    if not found:
        return ""
    file, line, message = found[-1]
    return f"{file}:{line}: {message}" if file else message.strip()


def last_line(text: str) -> str:
    """Return the last line that is not blank."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def specialize(
    kernel: Any,
    arguments: Mapping[str, str | int | float | None],
    constants: Mapping[str, Any],
    backend: str,
    large: Sequence[str] = (),
) -> tuple[dict[str, str], dict[tuple[int, ...], Any], dict[tuple[int, ...], list[list[Any]]]]:
    """Return signature, constants and attributes as Triton's JIT derives them from real arguments (3.4 to 3.9).

    Pointers are taken to be 16-byte aligned and, on "hip", below 2 GiB unless they are `large`.
    """
    signature: dict[str, str] = {}
    fixed: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    aligned = ["tt.divisibility", 16]
    for index, parameter in enumerate(kernel.params):
        name = parameter.name
        if parameter.is_constexpr or arguments[name] is None:
            signature[name], fixed[(index,)] = "constexpr", constants.get(name)
            continue
        value = arguments[name]
        assert value is not None
        special = not parameter.do_not_specialize
        if isinstance(value, str):
            signature[name] = value
            near = [["tt.pointer_range", 32]] if backend == "hip" and name not in large else []
            attributes[(index,)] = [aligned, *near]
        elif isinstance(value, float):
            signature[name] = "fp32"
        elif value == 1 and special:
            signature[name], fixed[(index,)] = "constexpr", value
        elif isinstance(value, bool):
            signature[name] = "u1"
        else:
            signature[name] = "i32" if -(1 << 31) <= value < 1 << 31 else "i64"
            if value % 16 == 0 and special:
                attributes[(index,)] = [aligned]
    return signature, fixed, attributes


def specialize_request(
    arch: str, request: BuildRequest
) -> tuple[dict[str, str], dict[tuple[int, ...], Any], dict[tuple[int, ...], list[list[Any]]]]:
    """Return the result of `specialize` for a request for one of KNOWN_ARCHES."""
    kernel, backend = find_kernel(request.kernel), "hip" if architecture(arch).is_amd else "cuda"
    return specialize(kernel, request.arguments, request.constants, backend, request.large)


def fingerprint(arch: str, request: BuildRequest) -> str:
    """Return everything that the compiler receives: where it is equal, the same source becomes the same code."""
    signature, fixed, attributes = specialize_request(arch, request)
    received = [request.kernel, signature, sorted(fixed.items()), sorted(attributes.items()), request.options]
    return json.dumps([arch, *received], sort_keys=True, default=str)
