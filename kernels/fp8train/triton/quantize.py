"""Quantizers in Triton, to the bit those of `quantize`, and the transposition of what they wrote.

Quotients are rounded to nearest (a plain `/` is approximate on NVIDIA GPUs). Nothing is clamped: x s is at most FP8_MAX
(1 + 2^-23), which rounds to FP8_MAX. Traffic: every operand once. VECTOR and NEWTON: see `jit.quantizing`.
"""

import triton
import triton.language as tl

from ...jit.quantizing import quotient, reciprocal, row_major
from ..quantize import AMAX_FLOOR

_FLOOR = tl.constexpr(AMAX_FLOOR)


@triton.jit
def _scales(amax, LARGEST: tl.constexpr, NEWTON: tl.constexpr):
    """s = FP8_MAX / max(amax, floor), and 1 / s, the scale that is stored."""
    a = tl.maximum(amax, _FLOOR)
    s = quotient(a, LARGEST, NEWTON)
    return s, reciprocal(s, a, LARGEST, NEWTON)


@triton.jit
def quantize_kernel(
    x, row_data, row_scale, col_data, col_scale, R, C, row_scale_r, row_scale_c, col_data_r, col_data_c,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, TRANSPOSED: tl.constexpr, EVEN: tl.constexpr,
    ROW_MAX: tl.constexpr, COL_MAX: tl.constexpr, VECTOR: tl.constexpr, NEWTON: tl.constexpr,
):  # fmt: skip
    """Quantize x[R,C] in groups of 1 x 128 (`row_data` is not None), of 128 x 1 (`col_data` is not None), or both.

    x          bf16 [R,C], row-major; read once
    row_data   FP8 [R,C], row-major; row_scale  fp32, element [r, block of c] at r row_scale_r + block row_scale_c
    col_data   FP8, element [r,c] at r col_data_r + c col_data_c: row-major, or column-major when TRANSPOSED
    col_scale  fp32 [cd(R,128), C], row-major
    EVEN       the tile divides R and C. ROW_MAX, COL_MAX  largest values of the two FP8 types
    One program takes a tile of ROWS x COLUMNS, ROWS = 128 where columns are quantized, COLUMNS = 128 where rows are.
    Grid (cd(R, ROWS) * cd(C, COLUMNS)).
    """
    tiles = tl.cdiv(C, COLUMNS)
    r0 = tl.program_id(0) // tiles * ROWS
    c0 = tl.program_id(0) % tiles * COLUMNS
    r = tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    inside = (r < R - r0)[:, None] & (c < C - c0)[None, :]
    start = r0.to(tl.int64) * C + c0
    offsets = row_major(r, c, C, VECTOR)
    if EVEN:
        v = tl.load(x + start + offsets).to(tl.float32)
    else:
        v = tl.load(x + start + offsets, mask=inside, other=0.0).to(tl.float32)
    magnitude = tl.abs(v)
    if row_data is not None:
        s, inverse = _scales(tl.max(magnitude, axis=1), ROW_MAX, NEWTON)
        q = (v * s[:, None]).to(row_data.dtype.element_ty)
        scales = row_scale + r0.to(tl.int64) * row_scale_r + c0 // 128 * row_scale_c + r * row_scale_r
        if EVEN:
            tl.store(row_data + start + offsets, q)
            tl.store(scales, inverse)
        else:
            tl.store(row_data + start + offsets, q, mask=inside)
            tl.store(scales, inverse, mask=r < R - r0)
    if col_data is not None:
        s, inverse = _scales(tl.max(magnitude, axis=0), COL_MAX, NEWTON)
        q = (v * s[None, :]).to(col_data.dtype.element_ty)
        tile = col_data + r0.to(tl.int64) * col_data_r + c0.to(tl.int64) * col_data_c
        scales = col_scale + (r0 // 128).to(tl.int64) * C + c0 + c
        if TRANSPOSED:
            places = tile + c[:, None] * col_data_c + r[None, :]
            q = tl.trans(q)
            within = (c < C - c0)[:, None] & (r < R - r0)[None, :]
        else:
            places = tile + row_major(r, c, col_data_r, VECTOR)
            within = inside
        if EVEN:
            tl.store(places, q)
            tl.store(scales, inverse)
        else:
            tl.store(places, q, mask=within)
            tl.store(scales, inverse, mask=c < C - c0)


@triton.jit
def quantize_weight_kernel(
    w, data, scale, transposed, turned_scale, R, C, scale_r, turned_r,
    BOTH: tl.constexpr, EVEN: tl.constexpr, LARGEST: tl.constexpr, VECTOR: tl.constexpr, NEWTON: tl.constexpr,
):  # fmt: skip
    """Quantize w[R,C] in blocks of 128 x 128.

    w      bf16 [R,C]; data  FP8 [R,C]; row-major
    scale  fp32 [cd(R,128), cd(C,128)] in rows of scale_r elements
    BOTH   write the same FP8 values to `transposed` [C,R] as well
    turned_scale  None, or the same scales as [cd(C,128), cd(R,128)] in rows of turned_r elements
    One program takes one block. Grid (cd(R,128) * cd(C,128)).
    """
    blocks = tl.cdiv(C, 128)
    r0 = tl.program_id(0) // blocks * 128
    c0 = tl.program_id(0) % blocks * 128
    r = tl.arange(0, 128)
    c = tl.arange(0, 128)
    inside = (r < R - r0)[:, None] & (c < C - c0)[None, :]
    start = r0.to(tl.int64) * C + c0
    offsets = row_major(r, c, C, VECTOR)
    if EVEN:
        v = tl.load(w + start + offsets).to(tl.float32)
    else:
        v = tl.load(w + start + offsets, mask=inside, other=0.0).to(tl.float32)
    amax = tl.max(tl.max(tl.abs(v), axis=1, keep_dims=True), axis=0, keep_dims=True)
    s, inverse = _scales(amax, LARGEST, NEWTON)
    q = (v * s).to(data.dtype.element_ty)
    one = tl.zeros([1, 1], tl.int32)
    tl.store(scale + (r0 // 128).to(tl.int64) * scale_r + c0 // 128 + one, inverse)
    if turned_scale is not None:
        tl.store(turned_scale + (c0 // 128).to(tl.int64) * turned_r + r0 // 128 + one, inverse)
    if EVEN:
        tl.store(data + start + offsets, q)
    else:
        tl.store(data + start + offsets, q, mask=inside)
    if BOTH:
        places = transposed + c0.to(tl.int64) * R + r0 + c[:, None] * R + r[None, :]
        # narrowed a second time: Triton 3.6 on sm90 stored part of `tl.trans(q)` wrong where q is stored as well
        again = (tl.trans(v) * s).to(data.dtype.element_ty)
        if EVEN:
            tl.store(places, again)
        else:
            tl.store(places, again, mask=(c < C - c0)[:, None] & (r < R - r0)[None, :])


@triton.jit
def transpose_kernel(source, target, R, C, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """target[C,R] = source[R,C]^T, both row-major and of one type.

    One program moves a tile of ROWS x COLUMNS. Grid (cd(R, ROWS) * cd(C, COLUMNS)).
    """
    tiles = tl.cdiv(C, COLUMNS)
    r0 = tl.program_id(0) // tiles * ROWS
    c0 = tl.program_id(0) % tiles * COLUMNS
    r = tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    read = source + r0.to(tl.int64) * C + c0 + r[:, None] * C + c[None, :]
    written = target + c0.to(tl.int64) * R + r0 + c[:, None] * R + r[None, :]
    v = tl.load(read, mask=(r < R - r0)[:, None] & (c < C - c0)[None, :])
    tl.store(written, tl.trans(v), mask=(c < C - c0)[:, None] & (r < R - r0)[None, :])
