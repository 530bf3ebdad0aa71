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

ARCHES = (*_WAVE64, *_WAVE32, *_CUDA)
"""Architectures that kernels are compiled for in the tests."""


@dataclass(frozen=True, slots=True)
class Request:
    """One kernel to compile.

    kernel     "module:attribute" of the jit function
    arguments  runtime arguments by parameter name: a pointer type ("*bf16"), an int, or None for an absent operand
    constants  constexpr arguments; options  num_warps, num_stages and what else the backend knows
    """

    kernel: str
    arguments: Mapping[str, str | int | None]
    constants: Mapping[str, Any]
    options: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Build:
    """What became of a request. Everything but verdict and reason is present only when the verdict is passed.

    registers      vector registers per lane; spills  bytes of scratch memory per lane
    shared_bytes   shared memory (LDS) per program
    assembly       PTX or AMD GCN text
    machine_code   SASS of NVIDIA binaries; GCN text already is the machine code
    """

    verdict: Verdict
    reason: str = ""
    registers: int = 0
    spills: int = 0
    shared_bytes: int = 0
    assembly: str = ""
    machine_code: str = ""


def compile_in_child(arch: str, requests: Sequence[Request], cache: Path, timeout_s: float = 300.0) -> list[Build]:
    """Compile `requests` for one of ARCHES, in order. A child that dies costs the request it was working on.

    cache      folder for Triton's cache; timeout_s  for one child, after which the request in work is given up
    Raises UsageError for an unknown architecture.
    """
    if arch not in ARCHES:
        raise unknown_name("architecture", arch, list(ARCHES))
    builds: list[Build] = []
    while len(builds) < len(requests):
        done, failure = _run_child(arch, requests[len(builds) :], cache, timeout_s)
        builds += done
        if failure is not None and len(builds) < len(requests):
            builds.append(failure)
    return builds


def _run_child(
    arch: str, requests: Sequence[Request], cache: Path, timeout_s: float
) -> tuple[list[Build], Build | None]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(cache), "TRITON_DEFAULT_FP_FUSION": "1"}
    orders = json.dumps({"arch": arch, "requests": [asdict(request) for request in requests]})
    # Results go to a file: the compiler itself prints to stdout and stderr.
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.jsonl")
        command = [sys.executable, "-m", "rooflens.kernels.aot", str(results)]
        failure = None
        try:
            child = subprocess.run(
                command, input=orders, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
            )
            if child.returncode:
                failure = Build(Verdict.CRASHED, f"exit status {child.returncode}: {_last_line(child.stderr)}")
        except subprocess.TimeoutExpired:
            failure = Build(Verdict.TIMEOUT, f"not compiled after {timeout_s:g} s")
        lines = results.read_text(encoding="utf-8").splitlines(keepends=True) if results.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    builds = [Build(**{**row, "verdict": Verdict(row["verdict"])}) for row in rows]
    if failure is None and len(builds) < len(requests):
        failure = Build(Verdict.CRASHED, "the child stopped without a result")
    return builds, failure


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def specialize(
    kernel: Any, arguments: Mapping[str, str | int | None], constants: Mapping[str, Any], backend: str
) -> tuple[dict[str, str], dict[tuple[int, ...], Any], dict[tuple[int, ...], list[list[Any]]]]:
    """Return signature, constants and attributes as Triton's JIT derives them from real arguments (3.4 to 3.9).

    Pointers are taken to be 16-byte aligned and, on "hip", below 2 GiB, as tensors of a benchmark are.
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
        if isinstance(value, str):
            signature[name] = value
            attributes[(index,)] = [aligned, ["tt.pointer_range", 32]] if backend == "hip" else [aligned]
        elif value == 1 and not parameter.do_not_specialize:
            signature[name], fixed[(index,)] = "constexpr", 1
        else:
            assert value is not None
            signature[name] = "i32" if -(1 << 31) <= value < 1 << 31 else "i64"
            if value % 16 == 0 and not parameter.do_not_specialize:
                attributes[(index,)] = [aligned]
    return signature, fixed, attributes


def compile_here(arch: str, request: Request) -> Build:
    """Compile in this process, which may die of it; see `compile_in_child`."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module, _, attribute = request.kernel.partition(":")
    kernel = getattr(importlib.import_module(module), attribute)
    cuda = arch in _CUDA
    target = GPUTarget("cuda", int(arch[2:]), 32) if cuda else GPUTarget("hip", arch, 64 if arch in _WAVE64 else 32)
    signature, constants, attributes = specialize(kernel, request.arguments, request.constants, target.backend)
    try:
        source = ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
        compiled = triton.compile(source, target=target, options=dict(request.options))
    except Exception as error:
        return Build(Verdict.COMPILE_ERROR, f"{type(error).__name__}: {_last_line(str(error))}")
    shared = int(compiled.metadata.shared)
    if not cuda:
        text = compiled.asm["amdgcn"]
        return Build(
            Verdict.PASSED,
            registers=_number(r"\.vgpr_count:\s+(\d+)", text),
            spills=_number(r"\.private_segment_fixed_size:\s+(\d+)", text),
            shared_bytes=shared,
            assembly=text,
        )
    usage, sass = _inspect_cubin(compiled.asm["cubin"])
    spills = _number(r"STACK:(\d+)", usage) + _number(r"LOCAL:(\d+)", usage)
    return Build(Verdict.PASSED, "", _number(r"REG:(\d+)", usage), spills, shared, compiled.asm["ptx"], sass)


def _inspect_cubin(cubin: bytes) -> tuple[str, str]:
    """Resource usage and SASS text, by the tools that come with Triton's NVIDIA backend."""
    import triton

    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        usage, sass = (
            subprocess.run(
                [str(tools / command[0]), *command[1:], str(file)], capture_output=True, text=True, check=True
            )
            for command in (["cuobjdump", "-res-usage"], ["nvdisasm", "-c"])
        )
    return usage.stdout + usage.stderr, sass.stdout


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    if match is None:
        raise UsageError(f"the compiler's output has no {pattern!r}: this version of Triton writes another format")
    return int(match.group(1))


def _main(results: str) -> None:
    orders = json.loads(sys.stdin.read())
    with Path(results).open("w", encoding="utf-8") as file:
        for order in orders["requests"]:
            build = compile_here(orders["arch"], Request(**order))
            file.write(json.dumps(asdict(build)) + "\n")
            file.flush()


if __name__ == "__main__":
    _main(sys.argv[1])
