"""The families of schemes, in the order in which their names are tried."""

from ..scheme import Scheme
from .a16w8 import A16W8
from .fourbit import FourBit
from .mxfp8 import MxFp8, MxFp8Quant
from .torchao import AoGemm, AoGrouped, AoGroupedLinear, AoLinear, AoQuant

FAMILIES: tuple[type[Scheme], ...] = (
    FourBit,
    A16W8,
    MxFp8,
    MxFp8Quant,
    AoQuant,
    AoGemm,
    AoLinear,
    AoGrouped,
    AoGroupedLinear,
)
"""To add a family, write its module and one line here."""
