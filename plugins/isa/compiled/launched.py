"""What follows from the binary of a launch on this machine: resident workgroups, instructions per weight, a schedule.

The same figures as of an ahead-of-time compile (`account`), read from Triton's compiled kernel. What cannot
be read (an architecture without known limits, no disassembler) is None. A binary is read once per process, and
disassembled, which takes 0.3 s, once per machine.
"""

import json
import subprocess
from contextlib import suppress
from typing import Any, NamedTuple

from ....kernels.aot import KNOWN_ARCHES
from ....kernels.cache_folder import cache_folder, keep_whole
from ....kernels.geometry import Binary
from ....kernels.jit.launch import artifact_hash
from ....shapes.gpu_architectures import architecture
from . import gcn, sass
from .account import Decoding, amd_registers, decoding
from .binary import amd_vector_registers, disassembly, warps_of
from .occupancy import occupancy
from .schedule import Schedule, from_lists, schedule


class Facts(NamedTuple):
    """Resident workgroups per SM, CU or WGP; what decoding a weight takes; how a workgroup's instructions follow."""

    resident: int | None = None
    decoding: Decoding = Decoding()
    schedule: Schedule | None = None


FORMAT = 5
"""Of the kept figures: raised where instructions are counted or scheduled otherwise."""

_known: dict[tuple[str, int | None, int], Facts] = {}


def facts(binary: Binary) -> Facts:
    """Read a binary, or remember what was read."""
    key = artifact_hash(binary.compiled), binary.decoded, binary.loop_rank
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
    return Facts(_resident(compiled, arch, warps), *_instructions(binary, arch, warps))


def _resident(compiled: Any, arch: str, warps: int) -> int | None:
    if architecture(arch).is_amd:
        text = compiled.asm["amdgcn"]
        vector, scalar = amd_vector_registers(text), amd_registers(text)["sgprs"]
    else:
        vector, scalar = compiled.n_regs, 0
    if not vector:  # not loaded yet
        return None
    return occupancy(arch, warps, vector, scalar, int(compiled.metadata.shared)).programs or None


def _instructions(binary: Binary, arch: str, warps: int) -> tuple[Decoding, Schedule | None]:
    compiled, decoded, loop_rank = binary.compiled, binary.decoded, binary.loop_rank
    if architecture(arch).is_amd:
        code = gcn.parse(compiled.asm["amdgcn"])
        return (decoding(code, arch, warps, decoded, loop_rank) if decoded else Decoding()), None
    kept = cache_folder() / "instructions" / f"{artifact_hash(compiled)}-{decoded}-{loop_rank}-{FORMAT}.json"
    with suppress(OSError, ValueError, TypeError):
        of_weight, of_workgroup = json.loads(kept.read_text(encoding="utf-8"))
        return Decoding(*of_weight), from_lists(of_workgroup)
    try:
        code = sass.parse(disassembly(compiled.asm["cubin"]))
    except (OSError, subprocess.SubprocessError):
        return Decoding(), None
    of_weight = decoding(code, arch, warps, decoded, loop_rank) if decoded else Decoding()
    found = of_weight, schedule(code, arch, warps, loop_rank)
    keep_whole(kept, json.dumps(found).encode())
    return found
