"""FP8 training with blockwise scales: the three GEMMs of a linear layer, and the quantizers in front of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..errors import UsageError, quote
from ..problem import Op, Pass, Problem
from ..scheme import EXACT_SNR_DB, SNR_FLOOR_DB, DType, Scheme

BLOCK = 128
"""Elements along each quantized dimension that share a scale."""

SCALE_BYTES = 4
"""Scales are fp32."""

READS_X = (Pass.FWD, Pass.WGRAD, Pass.BWD, Pass.STEP)
READS_W = (Pass.FWD, Pass.DGRAD, Pass.BWD, Pass.STEP)
READS_DY = (Pass.DGRAD, Pass.WGRAD, Pass.BWD, Pass.STEP)
"""Passes by operand."""

COMPUTES = {
    Pass.FWD: (Pass.FWD,),
    Pass.DGRAD: (Pass.DGRAD,),
    Pass.WGRAD: (Pass.WGRAD,),
    Pass.BWD: (Pass.DGRAD, Pass.WGRAD),
    Pass.STEP: (Pass.FWD, Pass.DGRAD, Pass.WGRAD),
}
"""Products of each pass, in the order of their outputs."""

FACTORS = {Pass.FWD: ("x_row", "w"), Pass.DGRAD: ("dy_row", "w"), Pass.WGRAD: ("x_col", "dy_col")}
"""FP8 operands of each product, as kernels take them; a transposed wgrad takes them the other way round."""


def cd(a: int, b: int) -> int:
    """Return ceil(a / b)."""
    return -(-a // b)


def line_scales(lines: int, length: int) -> int:
    """Scales of `lines` vectors, rows or columns, that are quantized in pieces of 128."""
    return lines * cd(length, BLOCK)


def _require_bf16(dtype: DType, name: str) -> None:
    if dtype is not DType.BF16:
        raise UsageError(f"scheme {name} is defined on bf16: dtype {dtype} does not exist; use --dtype bf16")


@dataclass(frozen=True, slots=True)
class Fp8Train(Scheme):
    """Linear layer Y[M,N] = X[M,K] W[N,K]^T in bf16, multiplied in FP8 with fp32 accumulation.

    X and dY are quantized in pieces of 128 along the dimension that a product contracts, W in blocks of 128 x 128:

        fwd    Y[M,N]  = Xrow Wq^T          dgrad  dX[M,K] = dYrow Wq          wgrad  dW[N,K] = dYcol^T Xcol

    prequantized  the operands are given in FP8; otherwise in bf16, and quantizing them is part of the call
    hybrid        gradients, and X where it meets them (wgrad), are e5m2; all else is e4m3

    A pass that starts after the forward one finds in FP8 what the forward pass has quantized: W always; X by columns
    only from a provider that quantizes both ways at once. So `bwd` alone flatters such a provider, and `fwd` alone does
    the opposite: only `step` compares them.
    """

    dtype: DType
    prequantized: bool = False
    hybrid: bool = False

    family: ClassVar[str] = "fp8train"
    passes: ClassVar[tuple[Pass, ...]] = tuple(Pass)
    grammar: ClassVar[str] = "fp8-blockwise, then -prequantized and -hybrid if wanted"
    stem: ClassVar[str] = "fp8-blockwise"
    flags: ClassVar[tuple[str, ...]] = ("prequantized", "hybrid")

    def __post_init__(self) -> None:
        _require_bf16(self.dtype, self.name)

    @property
    def snr_floor_db(self) -> float:
        """40 dB against the fp64 product of the same FP8 bits, as for all that returns bf16.

        Rounding the output alone leaves about 56 dB, decoding the operands to bf16 as well about 51. A product of the
        bf16 operands, not quantized, differs from the quantized one by the noise of e4m3 (3 bits of mantissa): 29 dB.
        """
        return SNR_FLOOR_DB[DType.BF16]

    @property
    def math_dtype(self) -> str:
        """FP8."""
        return "fp8"

    def weight_bytes(self, problem: Problem) -> int:
        """W[N,K]: bf16 where the pass quantizes it itself (fwd, step), else the FP8 of the forward pass."""
        if problem.pass_ not in READS_W:
            return 0
        quantizes = not self.prequantized and problem.pass_ in (Pass.FWD, Pass.STEP)
        return problem.N * problem.K * (2 if quantizes else 1)

    def activation_bytes(self, problem: Problem) -> int:
        """X[M,K] and dY[M,N]: bf16, or each FP8 form that the pass multiplies.

        From X, a pass after the forward one reads the column form at least, FP8 already.
        """
        x, dy = problem.M * problem.K, problem.M * problem.N
        if self.prequantized:
            return sum((x if operand.startswith("x") else dy) for operand in operands(problem.pass_) if operand != "w")
        x_bytes = {Pass.FWD: 2, Pass.STEP: 2, Pass.WGRAD: 1, Pass.BWD: 1}.get(problem.pass_, 0)
        return x_bytes * x + (2 * dy if problem.pass_ in READS_DY else 0)

    def scale_bytes(self, problem: Problem) -> int:
        """Scales, fp32, of what the pass finds in FP8."""
        found = operands(problem.pass_)
        if not self.prequantized:
            saved = {Pass.DGRAD: ("w",), Pass.WGRAD: ("x_col",), Pass.BWD: ("w", "x_col")}
            found = saved.get(problem.pass_, ())
        return SCALE_BYTES * sum(operand_scales(operand, problem) for operand in found)

    def output_bytes(self, problem: Problem) -> int:
        """Y[M,N], dX[M,K], dW[N,K]: what the pass computes of them, bf16."""
        sizes = {
            Pass.FWD: problem.M * problem.N,
            Pass.DGRAD: problem.M * problem.K,
            Pass.WGRAD: problem.N * problem.K,
        }
        return self.dtype.bytes * sum(sizes[product] for product in COMPUTES[problem.pass_])


def operands(pass_: Pass) -> tuple[str, ...]:
    """FP8 operands that a pass multiplies: "x_row", "w", "dy_row", "x_col", "dy_col"."""
    return tuple(dict.fromkeys(operand for product in COMPUTES[pass_] for operand in FACTORS[product]))


def operand_scales(operand: str, problem: Problem) -> int:
    """Number of scales of one of `operands`."""
    m, n, k = problem.M, problem.N, problem.K
    return {
        "x_row": line_scales(m, k),
        "dy_row": line_scales(m, n),
        "x_col": line_scales(k, m),
        "dy_col": line_scales(n, m),
        "w": cd(n, BLOCK) * cd(k, BLOCK),
    }[operand]


QUANTIZERS = ("row", "col", "rowcol", "weight")
"""Groups that share a scale: 1 x 128, 128 x 1, both in one launch, 128 x 128."""


@dataclass(frozen=True, slots=True)
class Fp8Quant(Scheme):
    """Quantize X[M,K] from bf16 to FP8 e4m3; the outputs are (data, scale), twice for "rowcol".

    row     data [M,K], scale [M, cd(K,128)]            col     data [M,K], scale [cd(M,128), K]
    weight  data [M,K], scale [cd(M,128), cd(K,128)]    rowcol  those of row, then those of col

    The scales are fp32 and multiply when data are decoded.
    """

    dtype: DType
    kind: str

    family: ClassVar[str] = "fp8train"
    ops: ClassVar[tuple[Op, ...]] = (Op.QUANTIZE,)
    grammar: ClassVar[str] = "fp8-quant-row, -col, -rowcol or -weight"
    stem: ClassVar[str] = "fp8-quant-{kind}"
    choices: ClassVar[Mapping[str, Iterable[str]]] = {"kind": QUANTIZERS}

    def __post_init__(self) -> None:
        if self.kind not in QUANTIZERS:
            raise UsageError(f"unknown quantizer {quote(self.kind)}: known: {', '.join(QUANTIZERS)}")
        _require_bf16(self.dtype, self.name)

    @property
    def snr_floor_db(self) -> float:
        """Bits must be equal: the arithmetic is specified to the last rounding, and a cast keeps the sign of a zero."""
        return EXACT_SNR_DB

    @property
    def math_dtype(self) -> str:
        """fp32: no matrix unit takes part."""
        return "fp32"

    def weight_bytes(self, problem: Problem) -> int:
        """0: nothing stays the same from call to call."""
        return 0

    def scale_bytes(self, problem: Problem) -> int:
        """0: the scales are outputs."""
        return 0

    def output_bytes(self, problem: Problem) -> int:
        """FP8 data and fp32 scales."""
        m, k = problem.M, problem.K
        scales = {"row": line_scales(m, k), "col": line_scales(k, m), "weight": cd(m, BLOCK) * cd(k, BLOCK)}
        forms = ("row", "col") if self.kind == "rowcol" else (self.kind,)
        return sum(m * k + SCALE_BYTES * scales[form] for form in forms)
