"""What a compiled kernel contains: registers, spills, warps, SASS."""

import re
import subprocess
import tempfile
from pathlib import Path

from ....shapes.errors import UsageError
from ....shapes.gpu_architectures import architecture


def amd_vector_registers(assembly: str) -> int:
    """Vector registers per lane, accumulation registers included, of AMD's assembly."""
    return number(r"\.vgpr_count:\s+(\d+)", assembly)


def warps_of(arch: str, assembly: str) -> int:
    """Warps (waves) of a program that PTX or GCN text asks for, those of specialized warps included; 0: it does not."""
    threads = re.search(r"\.(?:max_flat_workgroup_size:|reqntid|maxntid)\s+(\d+)", assembly)
    return int(threads[1]) // architecture(arch).wave_size if threads else 0


def inspect_cubin(cubin: bytes) -> tuple[str, str]:
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


def number(pattern: str, text: str) -> int:
    """Return the number that `pattern` captures; raise UsageError where the text has none."""
    match = re.search(pattern, text)
    if match is None:
        raise UsageError(f"the compiler's output has no {pattern!r}: this version of Triton writes another format")
    return int(match.group(1))
