"""The quantizers as Triton kernels, and the way back. Each reads its input once and writes data and scales once.

Offsets inside a tile of up to 128 rows are 32-bit, so that addresses need few registers; where a tile begins is 64-bit.
Nothing is clamped: x s is at most FP8_MAX (1 + 2^-23), which rounds to FP8_MAX. VECTOR and NEWTON: see
`jit.quantizing`.
"""

import triton
import triton.language as tl

from ...jit.quantizing import quotient, reciprocal, row_major


@triton.jit
def _scales(amax, FP8_MAX: tl.constexpr, CEILING: tl.constexpr, NEWTON: tl.constexpr):
    """s of groups with the given amax, and 1/s, both rounded to nearest.

    float32(FP8_MAX / float64(amax)) is the correctly rounded fp32 quotient: 53 bits are more than 2 * 24 + 2, so that
    rounding twice is harmless. CEILING is s for amax = 1e-12, the least that is used.
    """
    s = tl.where(amax > 1e-12, quotient(amax, FP8_MAX, NEWTON), CEILING)
    return s, reciprocal(s, tl.maximum(amax, 1e-12), FP8_MAX, NEWTON)


@triton.jit
def quantize_rows_kernel(
    x, q, scale, M, K, BM: tl.constexpr, FP8_MAX: tl.constexpr, CEILING: tl.constexpr, WHOLE: tl.constexpr,
    VECTOR: tl.constexpr, NEWTON: tl.constexpr,
):  # fmt: skip
    """x[M,K] in groups of 1x128: q[M,K] row-major, scale [cd(K,128),M].

    One program takes BM rows of one group each; grid (cd(M, BM) * cd(K, 128)), neighbours along a row. WHOLE: no tile
    reaches beyond the tensor.
    """
    k_blocks = tl.cdiv(K, 128)
    k_block = tl.program_id(0) % k_blocks
    m0 = tl.program_id(0) // k_blocks * BM
    m = m0 + tl.arange(0, BM)
    k = k_block * 128 + tl.arange(0, 128)
    corner = m0.to(tl.int64) * K + k_block * 128
    at = row_major(tl.arange(0, BM), tl.arange(0, 128), K, VECTOR)
    inside = (m < M)[:, None] & (k < K)[None, :]
    if WHOLE:
        values = tl.load(x + corner + at).to(tl.float32)
    else:
        values = tl.load(x + corner + at, mask=inside, other=0.0).to(tl.float32)
    s, inverse = _scales(tl.max(tl.abs(values), axis=1), FP8_MAX, CEILING, NEWTON)
    data = (values * s[:, None]).to(q.dtype.element_ty)
    scale_at = scale + k_block.to(tl.int64) * M + m
    if WHOLE:
        tl.store(q + corner + at, data)
        tl.store(scale_at, inverse)
    else:
        tl.store(q + corner + at, data, mask=inside)
        tl.store(scale_at, inverse, mask=m < M)


@triton.jit
def quantize_columns_kernel(
    x, q, scale, M, K, BK: tl.constexpr, FP8_MAX: tl.constexpr, CEILING: tl.constexpr, WHOLE: tl.constexpr,
    VECTOR: tl.constexpr, NEWTON: tl.constexpr,
):  # fmt: skip
    """x[M,K] in groups of 128x1: q[K,M] (the data transposed), scale [cd(M,128),K].

    One program takes BK columns of one group each; grid (cd(M, 128) * cd(K, BK)). Its data leave in runs of 128 bytes.
    """
    k_tiles = tl.cdiv(K, BK)
    m_block = tl.program_id(0) // k_tiles
    m = m_block * 128 + tl.arange(0, 128)
    k0 = tl.program_id(0) % k_tiles * BK
    k = k0 + tl.arange(0, BK)
    at = row_major(tl.arange(0, 128), tl.arange(0, BK), K, VECTOR)
    from_at = x + (m_block.to(tl.int64) * 128 * K + k0) + at
    if WHOLE:
        values = tl.load(from_at).to(tl.float32)
    else:
        values = tl.load(from_at, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0).to(tl.float32)
    s, inverse = _scales(tl.max(tl.abs(values), axis=0), FP8_MAX, CEILING, NEWTON)
    data = tl.trans((values * s[None, :]).to(q.dtype.element_ty))
    to = q + (k0.to(tl.int64) * M + m_block * 128) + (tl.arange(0, BK)[:, None] * M + tl.arange(0, 128)[None, :])
    scale_at = scale + m_block.to(tl.int64) * K + k
    if WHOLE:
        tl.store(to, data)
        tl.store(scale_at, inverse)
    else:
        tl.store(to, data, mask=(k < K)[:, None] & (m < M)[None, :])
        tl.store(scale_at, inverse, mask=k < K)


@triton.jit
def quantize_blocks_kernel(
    x, q, scale, M, K, TRANSPOSE: tl.constexpr, FP8_MAX: tl.constexpr, CEILING: tl.constexpr, WHOLE: tl.constexpr,
    VECTOR: tl.constexpr, NEWTON: tl.constexpr,
):  # fmt: skip
    """x[E,M,K] in groups of 128x128: q[E,M,K], scale [E,cd(M,128),cd(K,128)]; TRANSPOSE: M and K exchanged in both.

    One program takes one group; grid (cd(M, 128) * cd(K, 128), E).
    """
    m_blocks = tl.cdiv(M, 128)
    k_blocks = tl.cdiv(K, 128)
    m_block = tl.program_id(0) // k_blocks
    k_block = tl.program_id(0) % k_blocks
    expert = tl.program_id(1).to(tl.int64)
    m = m_block * 128 + tl.arange(0, 128)
    k = k_block * 128 + tl.arange(0, 128)
    matrix = expert * M * K
    scale += expert * m_blocks * k_blocks
    row = tl.arange(0, 128)
    inside = (m < M)[:, None] & (k < K)[None, :]
    corner = matrix + m_block.to(tl.int64) * 128 * K + k_block * 128
    at = row_major(row, row, K, VECTOR)
    if WHOLE:
        values = tl.load(x + corner + at).to(tl.float32)
    else:
        values = tl.load(x + corner + at, mask=inside, other=0.0).to(tl.float32)
    amax = tl.max(tl.max(tl.abs(values), axis=1, keep_dims=True), axis=0, keep_dims=True)
    s, inverse = _scales(amax, FP8_MAX, CEILING, NEWTON)
    data = (values * s).to(q.dtype.element_ty)
    one = tl.arange(0, 1)
    if TRANSPOSE:
        corner = matrix + k_block.to(tl.int64) * 128 * M + m_block * 128
        at = row[:, None] * M + row[None, :]
        scale_at = scale + k_block * m_blocks + m_block + one[:, None] + one[None, :]
        data = tl.trans(data)
        inside = (k < K)[:, None] & (m < M)[None, :]
    else:
        scale_at = scale + m_block * k_blocks + k_block + one[:, None] + one[None, :]
    if WHOLE:
        tl.store(q + corner + at, data)
    else:
        tl.store(q + corner + at, data, mask=inside)
    tl.store(scale_at, inverse)


@triton.jit
def dequantize_kernel(
    q, scale, out, R, C, row_step, column_step, GROUP_R: tl.constexpr, BR: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """out[E,R,C] = q[E,R,C] * scale of its group, rounded once to the type of `out`.

    Groups have GROUP_R rows and 128 columns; scale of group (i, j) lies at i * row_step + j * column_step, those of the
    E matrices one after the other. One program takes BR rows (a divisor of GROUP_R, or GROUP_R is 1) of 128 columns;
    grid (cd(R, BR) * cd(C, 128), E).
    """
    c_blocks = tl.cdiv(C, 128)
    c_block = tl.program_id(0) % c_blocks
    r0 = tl.program_id(0) // c_blocks * BR
    r = r0 + tl.arange(0, BR)
    c = c_block * 128 + tl.arange(0, 128)
    expert = tl.program_id(1).to(tl.int64)
    scale += expert * tl.cdiv(R, GROUP_R) * c_blocks
    corner = (expert * R + r0) * C + c_block * 128
    q += corner
    out += corner
    at = tl.arange(0, BR)[:, None] * C + tl.arange(0, 128)[None, :]
    scale_at = scale + (r // GROUP_R).to(tl.int64) * row_step + c_block.to(tl.int64) * column_step
    if WHOLE:
        values = tl.load(q + at).to(tl.float32) * tl.load(scale_at)[:, None]
        tl.store(out + at, values.to(out.dtype.element_ty))
    else:
        inside = (r < R)[:, None] & (c < C)[None, :]
        values = tl.load(q + at, mask=inside, other=0.0).to(tl.float32)
        values *= tl.load(scale_at, mask=r < R, other=0.0)[:, None]
        tl.store(out + at, values.to(out.dtype.element_ty), mask=inside)
