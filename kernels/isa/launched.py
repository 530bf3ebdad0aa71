"""What follows from the binary of a launch on this machine: resident workgroups, and instructions per decoded weight.

The same figures as of an ahead-of-time compile (`account`), read from Triton's compiled kernel. What cannot
be read (an architecture without known limits, no disassembler) is None. A binary is read once per process, and
disassembled, which takes 0.3 s, once per machine.
"""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ...shapes.gpu_architectures import architecture
from ..aot import KNOWN_ARCHES
from ..cache_folder import cache_folder
from ..geometry import Binary
from ..jit.launch import artifact_hash
from . import gcn, sass
from .account import Decoding, amd_registers, decoding
from .binary import amd_vector_registers, disassembly, warps_of
from .occupancy import occupancy


class Facts(NamedTuple):
    """Resident workgroups per SM, CU or WGP; vector instructions of all lanes per decoded weight, and integer ones."""

    resident: int | None = None
    decode_per_weight: float | None = None
    decode_integer_per_weight: float | None = None


FORMAT = 2
"""Of the kept figures: raised where instructions are counted otherwise."""

_known: dict[tuple[str, int | None], Facts] = {}


def facts(binary: Binary) -> Facts:
    """Read a binary, or remember what was read."""
    key = artifact_hash(binary.compiled), binary.decoded
    if not key[0]:
        return _read(binary)
    if key not in _known:
        _known[key] = _read(binary)
    return _known[key]


def arch_of(compiled: Any) -> str:
    """Return the name that the device table uses: sm90 of Triton's 90, gfx942 of its "gfx942:sramecc+"."""
    target = compiled.metadata.target
    return f"sm{target.arch}" if target.backend == "cuda" else str(target.arch).partition(":")[0]


def _read(binary: Binary) -> Facts:
    compiled = binary.compiled
    arch = arch_of(compiled)
    if arch not in KNOWN_ARCHES:
        return Facts()
    warps = warps_of(arch, compiled.asm["amdgcn" if architecture(arch).is_amd else "ptx"]) or int(
        compiled.metadata.num_warps
    )
    return Facts(_resident(compiled, arch, warps), *_decoding(compiled, arch, warps, binary.decoded))


def _resident(compiled: Any, arch: str, warps: int) -> int | None:
    if architecture(arch).is_amd:
        text = compiled.asm["amdgcn"]
        vector, scalar = amd_vector_registers(text), amd_registers(text)["sgprs"]
    else:
        vector, scalar = compiled.n_regs, 0
    if not vector:  # not loaded yet
        return None
    return occupancy(arch, warps, vector, scalar, int(compiled.metadata.shared)).programs or None


def _decoding(compiled: Any, arch: str, warps: int, decoded: int | None) -> Decoding:
    if not decoded:
        return Decoding()
    if architecture(arch).is_amd:
        return decoding(gcn.parse(compiled.asm["amdgcn"]), arch, warps, decoded)
    kept = cache_folder() / "decode" / f"{artifact_hash(compiled)}-{decoded}-{FORMAT}.json"
    with suppress(OSError, ValueError, TypeError):
        return Decoding(*json.loads(kept.read_text(encoding="utf-8")))
    try:
        text = disassembly(compiled.asm["cubin"])
    except (OSError, subprocess.SubprocessError):
        return Decoding()
    found = decoding(sass.parse(text), arch, warps, decoded)
    with suppress(OSError):
        _keep(kept, json.dumps(found))
    return found


def _keep(path: Path, text: str) -> None:
    """Write a file whole: other workers may read it meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
