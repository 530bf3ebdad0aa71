"""The child process that compiles ahead of time: see `aot_compiler`."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ....kernels import registry
from ....kernels.aot import Build, Request, diagnosis, find_kernel, last_line, specialize_request
from ....shapes.gpu_architectures import architecture
from ....shapes.verdict import Verdict
from .binary import amd_vector_registers, inspect_cubin, number, warps_of


def compile_here(arch: str, request: Request) -> Build:
    """Compile in this process, which may die of it; see `aot_compiler`."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = find_kernel(request.kernel)
    amd = architecture(arch).is_amd
    target = GPUTarget("hip", arch, architecture(arch).wave_size) if amd else GPUTarget("cuda", int(arch[2:]), 32)
    signature, constants, attributes = specialize_request(arch, request)
    try:
        source = ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
        compiled = triton.compile(source, target=target, options=dict(request.options))
    except Exception as error:
        reason = f"{type(error).__name__}: {diagnosis(str(error)) or last_line(str(error))}"
        return Build(Verdict.COMPILE_ERROR, reason, triton=triton.__version__)
    if amd:
        text, sass = compiled.asm["amdgcn"], ""
        registers = amd_vector_registers(text)
        spills = number(r"\.private_segment_fixed_size:\s+(\d+)", text)
    else:
        text = compiled.asm["ptx"]
        usage, sass = inspect_cubin(compiled.asm["cubin"])
        registers = number(r"REG:(\d+)", usage)
        spills = number(r"STACK:(\d+)", usage) + number(r"LOCAL:(\d+)", usage)
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


def _main(results: int, files: Sequence[str]) -> None:
    """Compile the orders on stdin, one JSON line each, and answer each with a line to file descriptor `results`."""
    with os.fdopen(results, "w", encoding="utf-8") as file:
        import triton  # noqa: F401  the time limit is for compiling

        if files:
            registry.load((), map(Path, files))
        print("ready", file=file, flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            build = compile_here(order["arch"], Request(**order["request"]))
            print(json.dumps(asdict(build)), file=file, flush=True)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2:])
