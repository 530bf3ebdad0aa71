"""The CPU as Linux describes it in /proc/cpuinfo, and what torch derives from that."""

import os
import re
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")

_AVX512 = {"avx512f", "avx512vl", "avx512bw", "avx512dq", "fma"}
_AVX2 = {"avx2", "fma"}


@cache
def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def entry(key: str) -> str:
    """Value of the first entry `key`; "" without one."""
    match = re.search(rf"^{key}\s*:\s*(.+)$", _text(CPUINFO), re.MULTILINE)
    return match[1].strip() if match else ""


def flags() -> frozenset[str]:
    """Instruction sets of an x86 CPU; empty where they are unknown."""
    return frozenset(entry("flags").split())


def torch_capability() -> str:
    """Instruction set that torch's own kernels choose ("AVX512", "AVX2"), by its rule; "" where only torch knows.

    The rule is compute_cpu_capability in torch's DispatchStub.cpp.
    """
    if "ATEN_CPU_CAPABILITY" in os.environ:
        return ""
    has = flags()
    return "AVX512" if has >= _AVX512 else "AVX2" if has >= _AVX2 else ""
