"""The families of schemes, in the order in which their names are tried."""

from ..scheme import Scheme
from .a16w8 import A16W8
from .fourbit import FourBit
from .fp8train import Fp8Quant, Fp8Train
from .mxfp8 import MxFp8, MxFp8Quant
from .mxfp8_moe import MxFp8Moe
from .torchao import AoGemm, AoGrouped, AoGroupedLinear, AoLinear, AoQuant

FAMILIES: tuple[type[Scheme], ...] = (
    FourBit,
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
