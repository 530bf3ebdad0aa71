"""From a finished compile to the values of its row: registers, spills, occupancy, and counts of instructions."""

import re
from typing import Any, NamedTuple

from ....kernels.aot import Build
from ....shapes.gpu_architectures import architecture
from . import gcn, sass
from .code import Disassembly, OpKind, count
from .integer_rate import integer_instructions
from .loops import main_loop
from .occupancy import occupancy

_DECODING = ("convert", "valu")
"""Counts of the main loop that decoding consists of, address arithmetic and multiply-adds included."""


class Decoding(NamedTuple):
    """Vector instructions of all lanes per decoded weight, and those of them that issue at the integer rate.

    None: no main loop; the second also where that rate is not distinguished (`integer_rate`).
    """

    per_weight: float | None = None
    integer_per_weight: float | None = None


def account(build: Build, arch: str, decoded: int | None = None) -> dict[str, Any]:
    """Return the columns of isa.csv that follow from a passed build for `arch`; unknown values are omitted.

    decoded  weight elements that one program decodes per iteration of its main loop
    """
    code = gcn.parse(build.assembly) if architecture(arch).is_amd else sass.parse(build.machine_code)
    body = main_loop(code)
    registers = amd_registers(build.assembly) if architecture(arch).is_amd else {"vgprs": build.registers}
    # AMD's .vgpr_count is that of the one file that holds both kinds of vector registers
    resident = occupancy(arch, build.warps, build.registers, registers.get("sgprs", 0), build.shared_bytes)
    whole = count(code.instructions)
    inner = {f"loop_{name}": number for name, number in count(body).items()} if body else {}
    values: dict[str, Any] = {
        **registers,
        "scratch_bytes": build.spills,
        "shared_bytes": build.shared_bytes,
        "warps": build.warps,
        "occupancy": resident.waves,
        "occupancy_slots": resident.slots,
        "occupancy_limit": resident.limit,
        "matrix_instructions": " ".join(_matrix_names(build, arch)),
        **whole,
        **inner,
        "decoded": decoded,
        "code": code.digest,
        "triton": build.triton,
    }
    if decoded:
        per_weight, integer_per_weight = decoding(code, arch, build.warps, decoded)
        known = {"decode_per_weight": per_weight, "decode_integer_per_weight": integer_per_weight}
        values |= {name: value for name, value in known.items() if value is not None}
    return values


def decoding(code: Disassembly, arch: str, warps: int, decoded: int, loop_rank: int = 0) -> Decoding:
    """Count the work of decoding, where `decoded` weights are decoded by each iteration of `main_loop`."""
    body = main_loop(code, loop_rank)
    if not body:
        return Decoding()
    per_instruction = warps * architecture(arch).wave_size / decoded
    counts, integer = count(body), integer_instructions(body, arch)
    return Decoding(
        round(sum(counts[name] for name in _DECODING) * per_instruction, 4),
        None if integer is None else round(integer * per_instruction, 4),
    )


def amd_registers(text: str) -> dict[str, int]:
    """Registers and spills from the metadata at the end of AMD's assembly; `vgprs` without accumulation registers."""
    found = {name: int(number) for name, number in re.findall(r"^\s+(?:- )?\.(\w+):\s+(\d+)$", text, re.MULTILINE)}
    total, accumulators = found["vgpr_count"], found.get("agpr_count", 0)
    own = re.search(r"^; NumVgprs: (\d+)", text, re.MULTILINE)
    return {
        "vgprs": int(own[1]) if own else total - accumulators,
        "agprs": accumulators,
        "sgprs": found["sgpr_count"],
        "spilled_vgprs": found["vgpr_spill_count"],
        "spilled_sgprs": found["sgpr_spill_count"],
    }


def _matrix_names(build: Build, arch: str) -> list[str]:
    """Names of the matrix instructions, each once: of AMD's assembly, and of PTX, which says types and shape."""
    if not architecture(arch).is_amd:
        return sorted(set(sass.ptx_matrix_instructions(build.assembly)))
    return sorted({one.opcode for one in gcn.parse(build.assembly).instructions if one.kind is OpKind.MATRIX})
