"""Machine code as classified instructions, and how often each class occurs.

`gcn` and `sass` read the two kinds of assembly into a `Disassembly`; what is counted, and under which name, is decided
here.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class OpKind(StrEnum):
    """What an instruction does, as far as the accounts distinguish it."""

    MATRIX = "matrix"
    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"
    LDS_LOAD = "lds_load"
    LDS_STORE = "lds_store"
    SHUFFLE = "shuffle"
    SCRATCH = "scratch"
    CONVERT = "convert"
    ACC_MOVE = "acc_move"
    VALU = "valu"
    SCALAR = "scalar"
    BRANCH = "branch"
    SYNC = "sync"
    OTHER = "other"


WIDTHS = ("byte", "short", "dword", "dwordx2", "dwordx4", "bulk")
"""Names of what a lane moves in one load or store: up to 1, 2, 4, 12, or 16 and more bytes; bulk: a tile at once."""

_LARGEST_BYTES = ((1, "byte"), (2, "short"), (4, "dword"), (12, "dwordx2"))

_WITH_WIDTH = (OpKind.LOAD, OpKind.STORE)

COUNTS = (
    "instructions",
    *(
        name
        for kind in OpKind
        for name in ([f"{kind}_{width}" for width in WIDTHS] if kind in _WITH_WIDTH else [kind.value])
    ),
)
"""Names of the counts, in the order of the columns."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; two that are issued as one (gfx11's v_dual_*) count once.

    text    without comments and address; opcode  its first word, modifiers included
    bytes   that a lane moves, of loads and stores of memory; 0 of a bulk copy
    target  label that it may jump to; falls_through  the next instruction may be the one behind it
    """

    text: str
    opcode: str
    kind: OpKind
    bytes: int = 0
    target: str = ""
    falls_through: bool = True

    @property
    def count_name(self) -> str:
        """Its name among COUNTS."""
        return f"{self.kind}_{width_name(self.bytes)}" if self.kind in _WITH_WIDTH else self.kind.value


@dataclass(frozen=True, slots=True)
class Disassembly:
    """Instructions in the order of their addresses, and the index that each label stands before."""

    instructions: Sequence[Instruction]
    labels: Mapping[str, int]

    @property
    def digest(self) -> str:
        """16 hex digits over all instructions and operands: equal for equal machine code."""
        text = "\n".join(one.text for one in self.instructions)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def width_name(bytes_per_lane: int) -> str:
    """Return the name in WIDTHS of a load or store."""
    if not bytes_per_lane:
        return "bulk"
    return next((name for largest, name in _LARGEST_BYTES if bytes_per_lane <= largest), "dwordx4")


def count(instructions: Iterable[Instruction]) -> dict[str, int]:
    """Return how often each of COUNTS occurs."""
    found = Counter(one.count_name for one in instructions)
    return {name: found[name] for name in COUNTS} | {"instructions": found.total()}
