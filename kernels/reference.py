"""How far an output is from its reference in fp64.

The reference (`Inputs.reference`) is computed from the SAME quantized bits that every provider gets. What is judged is
the kernel's arithmetic, never the quantization. Where a scheme is exact (quantizers), the reference holds the very
values that must come out: FP8, bytes and fp32 widened to fp64, which keeps them apart, zeros of both signs too. Then
bits are compared.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..shapes.scheme import EXACT_SNR_DB, Scheme

_ELEMENT_MARGIN = 10.0
"""A single element may be off by this many times the noise level (rms) that the scheme's SNR floor allows overall.

SNR alone forgives one wrong column among 28,672 (45 dB). Rounding noise of bf16 operands lies 13 dB below its floor and
its largest element among 10^8 near 7 times its rms, so that 10 leaves a factor of 6. Rounding of the output comes on
top (`_ROUNDINGS`).
"""

_ROUNDINGS = 2
"""An element may also be off by so many times the unit roundoff of the output's type, relative to itself.

Results are rounded once, and before that where a GEMM stored them for a bias or a routing weight to be applied. The
error is at most that, and in proportion to the element: the rms of an output does not bound it where rows differ, as
with routing weights.
"""

_CHUNK = 1 << 27
"""Elements measured at a time: a GiB in fp64, and cuBLAS's dot products end at 2^31."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Distance between an output and its reference.

    snr_db          10 log10(sum ref^2 / sum (ref - out)^2); inf when equal, -inf when not finite
    relative_error  norm(out - ref) / norm(ref)
    cosine          cosine of the angle between both; None when the output is not finite or has no direction
    max_abs_error   largest |out - ref|
    reference_rms   root mean square of the reference
    worst           row and column of the largest error, or of the first element that is not finite
    excess          largest |out - ref| - 2 u |ref|, with the unit roundoff u of the output's type: what rounding does
                    not explain; inf when not finite
    excess_at       row and column of it
    excess_rounding  2 u |ref| there
    non_finite      number of NaN and Inf elements in the output (an element that was never written is NaN)
    different       number of elements that are not the reference's to the bit, once widened to fp64; 0 and -0 differ
    first_different  row and column of the first of them, None when there is none
    """

    snr_db: float
    relative_error: float
    cosine: float | None
    max_abs_error: float
    reference_rms: float
    worst: tuple[int, int]
    excess: float
    excess_at: tuple[int, int]
    excess_rounding: float
    non_finite: int
    different: int
    first_different: tuple[int, int] | None

    def failure(self, scheme: Scheme) -> str:
        """One line that says what is wrong with the output, empty when it is correct."""
        return self.failure_below(scheme.snr_floor_db, scheme.dtype)

    def failure_below(self, floor_db: float, dtype: str) -> str:
        """`failure` of an output of a type whose signal-to-noise ratio must be `floor_db`; inf: all bits are right."""
        row, column = self.worst
        if self.non_finite:
            return (
                f"{self.non_finite} elements are NaN or Inf (or were never written), the first at [m={row}, n={column}]"
            )
        if floor_db == EXACT_SNR_DB:
            if self.first_different is None:
                return ""
            row, column = self.first_different
            return (
                f"{self.different} elements differ in their bits, the first at [m={row}, n={column}]; "
                f"largest error {self.max_abs_error:.3g}"
            )
        if not self.snr_db >= floor_db:
            return (
                f"SNR {self.snr_db:.1f} dB is below the {floor_db:g} dB of {dtype}; "
                f"largest error {self.max_abs_error:.3g} at [m={row}, n={column}]"
            )
        limit = _ELEMENT_MARGIN * 10 ** (-floor_db / 20) * self.reference_rms
        if self.excess > limit:
            row, column = self.excess_at
            rounding = self.excess_rounding
            return (
                f"error {self.excess + rounding:.3g} at [m={row}, n={column}] is above {limit + rounding:.3g}, "
                f"although SNR is {self.snr_db:.1f} dB"
            )
        return ""

    def columns(self) -> dict[str, float | None]:
        """Columns of cells.csv that say how far the output is from the reference."""
        return {
            "snr_db": self.snr_db,
            "relative_error": self.relative_error,
            "cosine": self.cosine,
            "max_abs_error": self.max_abs_error,
        }

    def passes(self, scheme: Scheme) -> bool:
        """Whether the output is correct for this scheme."""
        return not self.failure(scheme)


def measure(output: torch.Tensor, reference: torch.Tensor) -> Accuracy:
    """Compare `output` of any type with `reference` in fp64, of the same shape; see `Accuracy` for the edge cases.

    The reference may be on another device: it moves to the output's in pieces. Rows are counted over all leading
    dimensions. Raises ValueError when the shapes differ.
    """
    if output.shape != reference.shape:
        raise ValueError(f"output is {list(output.shape)}, reference {list(reference.shape)}")
    columns = reference.shape[-1]
    flat, truth = output.reshape(-1), reference.reshape(-1)
    parts = [
        _part(flat[i : i + _CHUNK], truth[i : i + _CHUNK].to(output.device)) for i in range(0, flat.numel(), _CHUNK)
    ]
    signal = math.hypot(*(part.signal for part in parts))
    rms = signal / math.sqrt(reference.numel())
    different = sum(part.different for part in parts)
    begins = (i * _CHUNK + part.first_different for i, part in enumerate(parts) if part.different)
    first_different = divmod(next(begins), columns) if different else None
    if non_finite := sum(part.non_finite for part in parts):
        where = next(i for i, part in enumerate(parts) if part.non_finite)
        first = where * _CHUNK + parts[where].worst
        place = divmod(first, columns)
        return Accuracy(
            snr_db=-math.inf,
            relative_error=math.inf,
            cosine=None,
            max_abs_error=math.inf,
            reference_rms=rms,
            worst=place,
            excess=math.inf,
            excess_at=place,
            excess_rounding=0.0,
            non_finite=non_finite,
            different=different,
            first_different=first_different,
        )
    noise = math.hypot(*(part.noise for part in parts))
    length = math.hypot(*(part.length for part in parts))
    dot = math.fsum(part.dot for part in parts)
    where = max(range(len(parts)), key=lambda i: parts[i].largest)
    beyond = max(range(len(parts)), key=lambda i: parts[i].excess)
    return Accuracy(
        snr_db=_snr_db(signal, noise),
        relative_error=noise / signal if signal else (math.inf if noise else 0.0),
        cosine=dot / (length * signal) if length and signal else (None if noise else 1.0),
        max_abs_error=parts[where].largest,
        reference_rms=rms,
        worst=divmod(where * _CHUNK + parts[where].worst, columns),
        excess=parts[beyond].excess,
        excess_at=divmod(beyond * _CHUNK + parts[beyond].excess_at, columns),
        excess_rounding=parts[beyond].excess_rounding,
        non_finite=0,
        different=different,
        first_different=first_different,
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """Sums over a part of an output, and indices into it; excess and what belongs to it as in `Accuracy`.

    worst  of its largest error, or of its first non-finite element; first_different  0 when none is
    """

    signal: float
    noise: float
    length: float
    dot: float
    largest: float
    worst: int
    non_finite: int
    different: int
    first_different: int
    excess: float = math.inf
    excess_at: int = 0
    excess_rounding: float = 0.0


def _part(output: torch.Tensor, reference: torch.Tensor) -> _Part:
    signal = torch.linalg.vector_norm(reference).item()
    product = output.double()  # some types know no other operation
    differs = product.view(torch.int64) != reference.view(torch.int64)
    different = int(differs.sum().item())
    first_different = int(differs.byte().argmax().item()) if different else 0
    del differs
    finite = torch.isfinite(product)
    if non_finite := int(output.numel() - finite.sum().item()):
        first = int(finite.logical_not_().byte().argmax().item())
        return _Part(signal, math.inf, math.inf, math.nan, math.inf, first, non_finite, different, first_different)
    dot = torch.dot(product, reference).item()
    length = torch.linalg.vector_norm(product).item()
    error = product.sub_(reference) if product is not output else product - reference
    noise = torch.linalg.vector_norm(error).item()
    worst = int(error.abs_().argmax().item())
    largest = error[worst].item()
    rounding = _ROUNDINGS * _unit_roundoff(output.dtype)
    beyond = int(error.sub_(reference.abs(), alpha=rounding).argmax().item())
    return _Part(
        *(signal, noise, length, dot, largest, worst, 0, different, first_different),
        excess=error[beyond].item(),
        excess_at=beyond,
        excess_rounding=rounding * abs(reference[beyond].item()),
    )


def _unit_roundoff(dtype: torch.dtype) -> float:
    """Largest relative error of rounding to nearest; 0 for integers, which are exact."""
    return torch.finfo(dtype).eps / 2 if dtype.is_floating_point else 0.0


def measure_all(outputs: Sequence[torch.Tensor], references: Sequence[torch.Tensor]) -> list[Accuracy]:
    """Compare each output with its reference. Raises ValueError when their numbers or shapes differ."""
    return [measure(output, truth) for output, truth in zip(outputs, references, strict=True)]


def _snr_db(signal: float, noise: float) -> float:
    if not noise:
        return math.inf
    return 20.0 * math.log10(signal / noise) if signal else -math.inf
