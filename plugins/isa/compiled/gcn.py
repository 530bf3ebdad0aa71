"""AMD GCN, CDNA and RDNA assembly, as LLVM prints it, into classified instructions.

Names of instructions: the "AMD Instinct MI300 / CDNA3" and "RDNA3", "RDNA4" Instruction Set Architecture guides. gfx9
counts bits in dwords (buffer_load_dwordx4), gfx11 and later in bits (buffer_load_b128).
"""

import re

from .code import Disassembly, Instruction, OpKind

_LABEL = re.compile(r"(\.?\w[\w.$]*):")
_INSTRUCTION = re.compile(r"\s+((?:s|v|ds|buffer|global|flat|scratch|tbuffer|image)_\w+)\b\s*(.*)")
_END = re.compile(r"\.Lfunc_end\d+:")

_BRANCH = re.compile(r"s_(?:c?branch|setpc|swappc|call|endpgm)")
_LAST = re.compile(r"s_(?:branch|setpc|endpgm)")
_SYNC = re.compile(r"s_(?:barrier|wait)|(?:buffer|global)_(?:inv|wb|gl[01]_inv)")
_HINT = re.compile(r"s_(?:nop|clause|delay_alu|setprio|sleep|sethalt|set_inst_prefetch|inst_prefetch|code_end)")
_VECTOR = (
    (re.compile(r"v_(?:mfma|smfmac|wmma|swmmac)"), OpKind.MATRIX),
    (re.compile(r"v_accvgpr_"), OpKind.ACC_MOVE),
    (re.compile(r"v_(?:pk_)?cvt_"), OpKind.CONVERT),
)
_SHARED = (
    (re.compile(r"ds_(?:read|load)"), OpKind.LDS_LOAD),
    (re.compile(r"ds_(?:write|store)"), OpKind.LDS_STORE),
    (re.compile(r"ds_(?:b?permute|swizzle)"), OpKind.SHUFFLE),
)
_BITS = re.compile(r"_[bui](8|16|32|64|96|128)\b")
_DWORDS = re.compile(r"_dword(?:x(\d))?")


def parse(text: str) -> Disassembly:
    """Read the functions of one assembly file; directives, metadata and comments are skipped.

    A spill that goes through a buffer instruction (gfx90a) is known by the comment that LLVM adds: "Folded Spill".
    """
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if match := _LABEL.match(line):
            if not _END.match(line):
                labels[match[1]] = len(instructions)
        elif match := _INSTRUCTION.match(line):
            opcode, (operands, _, comment) = match[1], match[2].partition(";")
            kind = OpKind.SCRATCH if "Folded Spill" in comment or "Folded Reload" in comment else classify(opcode)
            moved = bytes_of(opcode) if kind in (OpKind.LOAD, OpKind.STORE) else 0
            target = operands.strip() if kind is OpKind.BRANCH and operands.startswith(".") else ""
            goes_on = not _LAST.match(opcode)
            instructions.append(Instruction(f"{opcode} {operands.strip()}", opcode, kind, moved, target, goes_on))
    return Disassembly(instructions, labels)


def classify(opcode: str) -> OpKind:
    """Return the class of an instruction's name."""
    if _SYNC.match(opcode):
        return OpKind.SYNC
    unit, _, name = opcode.partition("_")
    if unit == "v":
        return next((kind for pattern, kind in _VECTOR if pattern.match(opcode)), OpKind.VALU)
    if unit == "s":
        if _BRANCH.match(opcode):
            return OpKind.BRANCH
        return OpKind.OTHER if _HINT.match(opcode) else OpKind.SCALAR
    if unit == "ds":
        return next((kind for pattern, kind in _SHARED if pattern.match(opcode)), OpKind.ATOMIC)
    if unit == "scratch":
        return OpKind.SCRATCH
    for word, kind in (("atomic", OpKind.ATOMIC), ("load", OpKind.LOAD), ("store", OpKind.STORE)):
        if word in name:
            return kind
    return OpKind.OTHER


def bytes_of(opcode: str) -> int:
    """Bytes that a lane moves: 4 of buffer_load_dword, 16 of global_store_b128."""
    if match := _DWORDS.search(opcode):
        return 4 * int(match[1] or 1)
    if "byte" in opcode:
        return 1
    if "short" in opcode:
        return 2
    match = _BITS.search(opcode.replace("_hi", ""))
    return int(match[1]) // 8 if match else 4
