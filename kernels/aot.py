"""Compile Triton kernels for GPUs that are not there, and say what came out: registers, spills, assembly.

A compile that fails inside LLVM can abort its process, so that compilation happens in a child. It must not happen where
TRITON_INTERPRET is set either. The result is evidence only if it is what a launch would compile: `specialize` mirrors
the JIT, which marks pointers and sizes that are multiples of 16, folds sizes of 1 and absent operands into constants,
and tells AMD's backend which operands are smaller than 2 GiB.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..shapes.errors import UsageError, unknown_name
from ..shapes.verdict import Verdict

_WAVE64 = ("gfx90a", "gfx942", "gfx950")
_WAVE32 = ("gfx1100", "gfx1151", "gfx1201")
_CUDA = ("sm80", "sm90", "sm100")
_MORE_CUDA = ("sm89", "sm120")

ARCHES = (*_WAVE64, *_WAVE32, *_CUDA)
"""Architectures that kernels are compiled for in the tests."""

KNOWN_ARCHES = (*ARCHES, *_MORE_CUDA)
"""Architectures that kernels can be compiled for."""

LARGE_BYTES = 1 << 31
"""Operands of so many bytes are out of reach of AMD's 32-bit buffer offsets; the JIT looks at each tensor's size."""


@dataclass(frozen=True, slots=True)
class Request:
    """One kernel to compile.

    kernel     "module:attribute" of the jit function
    arguments  runtime arguments by parameter name: a pointer type ("*bf16"), a number, or None for an absent operand
    constants  constexpr arguments; options  num_warps, num_stages and what else the backend knows
    large      names of the pointers to LARGE_BYTES or more
    decoded    weight elements that one program decodes per iteration of its main loop; None: it decodes none
    part       which part of the launch this is, where one kernel serves several: "wgrad", say
    """

    kernel: str
    arguments: Mapping[str, str | int | float | None]
    constants: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    large: Sequence[str] = ()
    decoded: int | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class Build:
    """What became of a request. Everything but verdict and reason is present only when the verdict is passed.

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


def is_amd(arch: str) -> bool:
    """True for AMD's architectures."""
    return arch.startswith("gfx")


def wave_size(arch: str) -> int:
    """Lanes of a wave (AMD) or warp (NVIDIA)."""
    return 64 if arch in _WAVE64 else 32


def check_arch(arch: str) -> str:
    """Return `arch`; raise UsageError when it is unknown."""
    if arch not in KNOWN_ARCHES:
        raise unknown_name("architecture", arch, list(KNOWN_ARCHES))
    return arch


def kernel_path(kernel: Any) -> str:
    """Return "module:attribute" of a jit function, as a Request names it."""
    return f"{kernel.fn.__module__}:{kernel.fn.__name__}"


def find_kernel(path: str) -> Any:
    """Return the jit function of "module:attribute"."""
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def large_operands(sizes_bytes: Mapping[str, int]) -> tuple[str, ...]:
    """Names of the operands that are LARGE_BYTES or more."""
    return tuple(name for name, size in sizes_bytes.items() if size >= LARGE_BYTES)


def compile_in_child(arch: str, requests: Sequence[Request], cache: Path, timeout_s: float = 300.0) -> list[Build]:
    """Compile `requests` for one of KNOWN_ARCHES, in order. A child that dies costs the request it was working on.

    cache      folder for Triton's cache; timeout_s  for one request, after which it is given up
    Raises UsageError for an unknown architecture.
    """
    from .aot_child import Compiler

    check_arch(arch)
    with Compiler(cache, timeout_s) as compiler:
        return [compiler.build(arch, request) for request in requests]


def diagnosis(text: str) -> str:
    """Return the last error that the compiler wrote, with file and line where it names them, "" when it wrote none.

    Folders are left out, temporary files too: the same mistake has the same text everywhere.
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
    arch: str, request: Request
) -> tuple[dict[str, str], dict[tuple[int, ...], Any], dict[tuple[int, ...], list[list[Any]]]]:
    """Return what `specialize` says of a request for one of KNOWN_ARCHES."""
    kernel, backend = find_kernel(request.kernel), "hip" if is_amd(arch) else "cuda"
    return specialize(kernel, request.arguments, request.constants, backend, request.large)


def fingerprint(arch: str, request: Request) -> str:
    """Write all that the compiler is told: where it is equal, the same source becomes the same code."""
    signature, fixed, attributes = specialize_request(arch, request)
    told = [request.kernel, signature, sorted(fixed.items()), sorted(attributes.items()), request.options]
    return json.dumps([arch, *told], sort_keys=True, default=str)


def compile_here(arch: str, request: Request) -> Build:
    """Compile in this process, which may die of it; see `compile_in_child`."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = find_kernel(request.kernel)
    target = GPUTarget("hip", arch, wave_size(arch)) if is_amd(arch) else GPUTarget("cuda", int(arch[2:]), 32)
    signature, constants, attributes = specialize_request(arch, request)
    try:
        source = ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
        compiled = triton.compile(source, target=target, options=dict(request.options))
    except Exception as error:
        reason = f"{type(error).__name__}: {diagnosis(str(error)) or last_line(str(error))}"
        return Build(Verdict.COMPILE_ERROR, reason, triton=triton.__version__)
    if is_amd(arch):
        text, sass = compiled.asm["amdgcn"], ""
        registers = amd_vector_registers(text)
        spills = _number(r"\.private_segment_fixed_size:\s+(\d+)", text)
    else:
        text = compiled.asm["ptx"]
        usage, sass = _inspect_cubin(compiled.asm["cubin"])
        registers = _number(r"REG:(\d+)", usage)
        spills = _number(r"STACK:(\d+)", usage) + _number(r"LOCAL:(\d+)", usage)
    return Build(
        Verdict.PASSED,
        registers=registers,
        spills=spills,
        shared_bytes=int(compiled.metadata.shared),
        assembly=text,
        machine_code=sass,
        warps=warps_of(arch, text) or int(compiled.metadata.num_warps),
        name=compiled.metadata.name,
        triton=triton.__version__,
    )


def amd_vector_registers(assembly: str) -> int:
    """Vector registers per lane, accumulation registers included, of AMD's assembly."""
    return _number(r"\.vgpr_count:\s+(\d+)", assembly)


def warps_of(arch: str, assembly: str) -> int:
    """Warps (waves) of a program that PTX or GCN text asks for, those of specialized warps included; 0: it does not."""
    threads = re.search(r"\.(?:max_flat_workgroup_size:|reqntid|maxntid)\s+(\d+)", assembly)
    return int(threads[1]) // wave_size(arch) if threads else 0


def _inspect_cubin(cubin: bytes) -> tuple[str, str]:
    """Resource usage and SASS text, by the tools that come with Triton's NVIDIA backend."""
    usage = _inspected(cubin, "cuobjdump", "-res-usage")
    return usage.stdout + usage.stderr, disassembly(cubin)


def disassembly(cubin: bytes) -> str:
    """Return the SASS text of an NVIDIA binary.

    Raises OSError where Triton's NVIDIA backend came without its disassembler, subprocess.SubprocessError where that
    fails.
    """
    return _inspected(cubin, "nvdisasm", "-c").stdout


def _inspected(cubin: bytes, tool: str, *options: str) -> "subprocess.CompletedProcess[str]":
    import triton

    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / tool
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        return subprocess.run([str(path), *options, str(file)], capture_output=True, text=True, check=True, timeout=60)


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    if match is None:
        raise UsageError(f"the compiler's output has no {pattern!r}: this version of Triton writes another format")
    return int(match.group(1))


def _main(results: int, files: Sequence[str]) -> None:
    """Compile the orders on stdin, one JSON line each, and answer each with a line to file descriptor `results`."""
    with os.fdopen(results, "w", encoding="utf-8") as file:
        import triton  # noqa: F401  the time limit is for compiling

        if files:
            from . import registry

            registry.load((), map(Path, files))
        print("ready", file=file, flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            build = compile_here(order["arch"], Request(**order["request"]))
            print(json.dumps(asdict(build)), file=file, flush=True)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2:])
