"""The families of schemes, in the order in which their names are tried."""

from ..errors import UsageError, quote
from ..scheme import DType, Scheme
from .a16w8 import A16W8
from .fourbit import FourBit
from .fp8train import Fp8Quant, Fp8Train
from .mxfp8 import MxFp8, MxFp8Quant
from .mxfp8_moe import MxFp8Moe
from .torchao import AoGemm, AoGrouped, AoGroupedLinear, AoLinear, AoQuant
from .w4a16 import W4A16

FAMILIES: tuple[type[Scheme], ...] = (
    FourBit,
    W4A16,
    A16W8,
    Fp8Train,
    Fp8Quant,
    MxFp8,
    MxFp8Quant,
    MxFp8Moe,
    AoQuant,
    AoGemm,
    AoLinear,
    AoGrouped,
    AoGroupedLinear,
)
"""To add a family, write its module and one line here."""

FAMILY_NAMES = tuple(dict.fromkeys(one.family for one in FAMILIES))


def parse_scheme(name: str, dtype: DType) -> Scheme:
    """Read a name of any family; raise UsageError for what none of them knows."""
    for family in FAMILIES:
        if scheme := family.read(name, dtype):
            return scheme
    known = "; ".join(dict.fromkeys(family.grammar for family in FAMILIES))
    raise UsageError(f"unknown scheme {quote(name)}: write {known}")
