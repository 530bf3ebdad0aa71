"""NVIDIA machine code, as `nvdisasm -c` prints it, into classified instructions; and the matrix instructions of PTX.

Names of instructions: "CUDA Binary Utilities", instruction set references of sm_80 to sm_120. SASS says which unit
multiplies (HMMA, HGMMA, QGMMA, UTCHMMA), PTX the types and shape (wgmma.mma_async ... m64n16k16.f32.e4m3.e4m3).
"""

import re

from .code import Disassembly, Instruction, OpKind

_LABEL = re.compile(r"\s*(\.L\w+):")
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);")
_TARGET = re.compile(r"`\((\.L\w+)\)")
_PTX_MATRIX = re.compile(r"\b((?:wgmma\.mma_async|mma\.sync|mma\.sp|tcgen05\.mma)[\w.:]*)")

_MATRIX = re.compile(r"[HIDBQO]G?MMA|UTC\w*MMA")
_CONVERT = re.compile(r"[FI]2(?:[FI]|FP|IP)")
_KINDS = {
    **dict.fromkeys(("LDG", "LD", "LDGSTS", "UTMALDG", "UBLKCP"), OpKind.LOAD),
    **dict.fromkeys(("STG", "ST", "UTMASTG", "UBLKRED", "UTMAREDG"), OpKind.STORE),
    **dict.fromkeys(("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDAS"), OpKind.ATOMIC),
    **dict.fromkeys(("LDS", "LDSM"), OpKind.LDS_LOAD),
    **dict.fromkeys(("STS", "STSM", "STAS"), OpKind.LDS_STORE),
    **dict.fromkeys(("SHFL", "REDUX", "MOVM"), OpKind.SHUFFLE),
    **dict.fromkeys(("LDL", "STL"), OpKind.SCRATCH),
    **dict.fromkeys(("LDTM", "STTM", "UTCCP"), OpKind.ACC_MOVE),
    **dict.fromkeys(("LDC", "R2UR", "S2UR"), OpKind.SCALAR),
    **dict.fromkeys(("BRA", "BRX", "BRXU", "JMP", "JMX", "CALL", "RET", "EXIT", "KILL", "BPT"), OpKind.BRANCH),
    **dict.fromkeys(("BSSY", "BSYNC", "BREAK", "BMOV"), OpKind.BRANCH),
    **dict.fromkeys(("BAR", "DEPBAR", "LDGDEPBAR", "MEMBAR", "ERRBAR", "CGAERRBAR", "CCTL", "FENCE"), OpKind.SYNC),
    **dict.fromkeys(("WARPGROUP", "WARPSYNC", "SYNCS", "NANOSLEEP", "ARRIVES", "UTCBAR", "UTMACMDFLUSH"), OpKind.SYNC),
    **dict.fromkeys(("UCGABAR_ARV", "UCGABAR_WAIT", "ACQBULK", "PREEXIT"), OpKind.SYNC),
    **dict.fromkeys(("NOP", "S2R", "ELECT", "PMTRIG", "YIELD", "USETMAXREG"), OpKind.OTHER),
}
_JUMPS = ("BRA", "JMP")
_LAST = ("BRA", "JMP", "BRX", "EXIT", "RET", "KILL")
_BULK = ("UTMALDG", "UBLKCP", "UTMASTG", "UBLKRED", "UTMAREDG")
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}


def parse(text: str) -> Disassembly:
    """Read the instructions of one kernel, without the endless jump and the padding behind its end."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if match := _LABEL.match(line):
            labels[match[1]] = len(instructions)
        elif match := _INSTRUCTION.match(line):
            guard, opcode, operands = match[1], match[2], match[3].strip()
            kind = classify(opcode, operands)
            moved = bytes_of(opcode) if kind in (OpKind.LOAD, OpKind.STORE) else 0
            jump = _TARGET.search(operands) if opcode.startswith(_JUMPS) else None
            # BRA.U !UP0, `(.L_x_1) has its condition among the operands
            leaves = opcode.startswith(_LAST) and not guard and (not jump or operands.startswith("`("))
            target = jump[1] if jump else ""
            instructions.append(
                Instruction(f"{guard or ''}{opcode} {operands}", opcode, kind, moved, target, not leaves)
            )
    while instructions and instructions[-1].opcode == "NOP":
        instructions.pop()
    if instructions and labels.get(instructions[-1].target) == len(instructions) - 1:
        instructions.pop()
    return Disassembly(instructions, labels)


def classify(opcode: str, operands: str = "") -> OpKind:
    """Return the class of an instruction: of its name, and for fp16 to fp32 (HADD2.F32 x, -RZ, y) of its operands."""
    name, *modifiers = opcode.split(".")
    if name in _KINDS:
        return _KINDS[name]
    if _MATRIX.fullmatch(name):
        return OpKind.MATRIX
    if _CONVERT.fullmatch(name) or (name == "HADD2" and "F32" in modifiers and "-RZ" in operands):
        return OpKind.CONVERT
    return OpKind.SCALAR if name.startswith("U") else OpKind.VALU


def bytes_of(opcode: str) -> int:
    """Bytes that a lane moves: 2 of STG.E.U16, 4 of LDG.E, 16 of LDGSTS.E.BYPASS.128; 0 of a bulk copy."""
    name, *modifiers = opcode.split(".")
    if name in _BULK:
        return 0
    return next((_BYTES[word] for word in modifiers if word in _BYTES), 4)


def ptx_matrix_instructions(ptx: str) -> list[str]:
    """Return the matrix instructions of PTX text, in order and with repetitions."""
    lines = (line.partition("//")[0] for line in ptx.splitlines())
    return [match[1] for line in lines for match in _PTX_MATRIX.finditer(line)]
