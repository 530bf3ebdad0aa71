"""Which vector instructions issue at the rate of shifts and logic, where that is less than what a scheduler can issue.

Results per clock and SM, by compute capability ("CUDA C++ Programming Guide" 12, "CUDA C++ Best Practices Guide" 13:
"Throughput of Native Arithmetic Instructions"):

    instructions                                8.0    8.6, 8.9, 9.0   12.0
    fp32 add, multiply, multiply-add             64              128    128
    32-bit integer add, min, max                 64               64    128
    32-bit shift, and, or, xor                   64               64     64
    32-bit integer multiply, multiply-add        64               64     64

Which of them share a unit is in the "Nsight Compute Profiling Guide", section "Pipelines": the ALU pipe does integer
instructions other than multiplications, bit manipulation and logic; IMAD has another unit, half of the fp32 one, and
so adds nothing to what waits for the ALU. Byte permutes (PRMT) and selects are not named there. A chain of PRMT on an
H200 runs at 16.5e12 a second, like one of LOP3 and half of what multiply-adds reach; selects are of the same kind.

What is counted surely waits for the unit whose rate a chain of shifts and logic shows, so that its time is a lower
bound. Left out: moves, which compilers spread over both units; conversions, which have rates and units of their own;
predicate logic; on sm100 and later all but shifts and logic, because additions issue faster on sm120, and nothing is
published of permutes.

AMD's vector units issue shifts, logic, permutes and integer additions at the rate of a multiply-add (LLVM,
SISchedule.td: Write32Bit; what is slower, as 32-bit multiplications, has rates of its own), so none are distinguished.
"""

from collections.abc import Iterable

from ....shapes.gpu_architectures import architecture
from .code import Instruction, OpKind

_SHIFTS_AND_LOGIC = frozenset(("SHF", "SHL", "SHR", "LOP", "LOP3"))
_BITS = frozenset(("PRMT", "SEL", "FSEL", "SGXT", "BMSK"))
_ADDITIONS = frozenset(("IADD", "IADD3", "VIADD", "IABS", "LEA", "VABSDIFF"))
_COMPARISONS = frozenset(("ISETP", "FSETP", "IMNMX", "FMNMX", "VIMNMX", "VIADDMNMX"))


def integer_instructions(instructions: Iterable[Instruction], arch: str) -> int | None:
    """Count the vector instructions that issue at the integer rate of `arch`; None where they are not distinguished."""
    if architecture(arch).is_amd:
        return None
    names = _SHIFTS_AND_LOGIC
    if architecture(arch).slow_integers:
        names |= _BITS | _ADDITIONS | _COMPARISONS
    return sum(one.kind is OpKind.VALU and one.opcode.partition(".")[0] in names for one in instructions)
