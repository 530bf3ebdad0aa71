"""Pieces of the FP8 quantizers: scales without branches, and how many elements of a row a lane takes.

On sm90 divisions and clamps were over half of what a quantizer of columns executed: every lane that holds some of a
column computes the column's scale.

VECTOR  elements of a row that a lane takes at a time: fewer mean fewer columns, and scales, per lane. 0: the compiler's
        choice, 16 bytes of the narrowest operand
NEWTON  scales by `quotient` and `reciprocal` without divisions, to the same bits
"""

# Triton types its kernels itself.
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

import torch
import triton
import triton.language as tl

_SHORT = (torch.bfloat16, torch.float16)


def newton(x: torch.Tensor, wanted: int) -> bool:
    """Whether scales of x may be computed with NEWTON: its magnitudes have at most 11 significant bits.

    Then LARGEST / a (LARGEST has at most 4) lies 2^-12 of its last place or more from where the rounding changes, and
    the corrected quotient is within 2^-16 of it. The interpreter's fma rounds twice, so that CPUs divide.
    """
    return bool(wanted) and x.dtype in _SHORT and x.device.type != "cpu"


@triton.jit
def quotient(a, LARGEST: tl.constexpr, NEWTON: tl.constexpr):
    """LARGEST / a in fp32, rounded to nearest, for a of 1e-12 to infinity; with NEWTON on NVIDIA GPUs only."""
    if NEWTON:
        # 256 / a, because 1 / a could be subnormal, which the instruction flushes
        inverse = tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=r,r", [a * 0.00390625], dtype=tl.float32, is_pure=True, pack=1
        )
        near = inverse * (LARGEST / 256)
        rest = tl.fma(-near, a, tl.full(a.shape, LARGEST, tl.float32))
        s = tl.where(a < float("inf"), tl.fma(rest * 0.00390625, inverse, near), 0.0)
    else:
        s = tl.div_rn(tl.full(a.shape, LARGEST, tl.float32), a)
    return s


@triton.jit
def reciprocal(s, a, LARGEST: tl.constexpr, NEWTON: tl.constexpr):
    """1 / s in fp32, rounded to nearest, where s is LARGEST / a."""
    if NEWTON:
        near = a * (1.0 / LARGEST)
        rest = tl.fma(-s, near, tl.full(s.shape, 1.0, tl.float32))
        inverse = tl.where(a < float("inf"), tl.fma(rest, near, near), a)
    else:
        inverse = tl.div_rn(tl.full(s.shape, 1.0, tl.float32), s)
    return inverse


@triton.jit
def row_major(r, c, pitch, VECTOR: tl.constexpr):
    """Offsets [rows, columns] of r pitch + c, with the hint that tells the compiler how many a lane takes.

    The hint belongs to the addition, which is why this is a function of r and c.
    """
    offsets = r[:, None] * pitch + c[None, :]
    if VECTOR:
        offsets = tl.max_contiguous(offsets, [1, VECTOR])
    return offsets
