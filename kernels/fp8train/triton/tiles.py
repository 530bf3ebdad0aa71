"""What the GEMM kernels share: which tile a program computes, and the clamping of edges."""

import triton
import triton.language as tl


@triton.jit
def tile_origin(
    R, C, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr, XCDS: tl.constexpr, CHUNK: tl.constexpr
):
    """First row and column of this program's tile of an [R,C] result.

    GROUP_M tile rows walk along the columns together, so that what they share stays in L2. Programs go round XCDS
    chiplets with an L2 each: they are renumbered so that each chiplet gets neighbouring tiles, CHUNK at a time, or all
    that it computes where CHUNK is 0.
    """
    r_tiles = tl.cdiv(R, BM)
    c_tiles = tl.cdiv(C, BN)
    tile = tl.program_id(0)
    tiles = r_tiles * c_tiles
    if XCDS > 1 and CHUNK:
        round_ = XCDS * CHUNK
        turn = tile // XCDS
        moved = turn // CHUNK * round_ + tile % XCDS * CHUNK + turn % CHUNK
        tile = tl.where(tile < tiles // round_ * round_, moved, tile)
    elif XCDS > 1:
        whole = tiles // XCDS
        left = tiles % XCDS
        chiplet = tile % XCDS
        tile = chiplet * whole + tl.minimum(chiplet, left) + tile // XCDS
    per_group = GROUP_M * c_tiles
    first = tile // per_group * GROUP_M
    rows = tl.minimum(r_tiles - first, GROUP_M)
    return (first + tile % per_group % rows) * BM, tile % per_group // rows * BN


@triton.jit
def clamped(SIZE: tl.constexpr, left, EVEN: tl.constexpr):
    """Lines 0 to SIZE - 1 of a tile, of which `left` exist: the others repeat the last one, and are not stored.

    EVEN: all exist; without the minimum the compiler knows that lines follow each other, and loads several at once.
    """
    lines = tl.arange(0, SIZE)
    if not EVEN:
        lines = tl.minimum(lines, left - 1)
    return lines


@triton.jit
def row_scales(scale, r0, r, stride):
    """Pointers to the scales of rows r0 + r."""
    return scale + r0.to(tl.int64) * stride + r * stride


@triton.jit
def column_scales(scale, c0, n, stride, SCALE_2D: tl.constexpr):
    """Pointers to the scales of columns c0 + n; one pointer where they share a block of 128."""
    if SCALE_2D:
        pointers = scale + c0 // 128 * stride
    else:
        pointers = scale + c0.to(tl.int64) * stride + n * stride
    return pointers


@triton.jit
def accumulate(acc, x, y, s, t, SCALE_2D: tl.constexpr):
    """acc[BM,BN] + x[BM,BK] y[BK,BN] * s[BM] * t, where t is [BN], or one number (SCALE_2D)."""
    if SCALE_2D:
        acc += tl.dot(x, y) * (s * t)[:, None]
    else:
        acc += tl.dot(x, y) * s[:, None] * t[None, :]
    return acc


@triton.jit
def store_tile(c, tile, r0, c0, R, C, ROWS: tl.constexpr, COLUMNS: tl.constexpr, EVEN: tl.constexpr):
    """Write tile[ROWS,COLUMNS] to c[R,C], row-major, at [r0,c0]; EVEN: none of it lies outside."""
    r = tl.arange(0, ROWS)
    n = tl.arange(0, COLUMNS)
    places = c + r0.to(tl.int64) * C + c0 + r[:, None] * C + n[None, :]
    if EVEN:
        tl.store(places, tile.to(c.dtype.element_ty))
    else:
        tl.store(places, tile.to(c.dtype.element_ty), mask=(r < R - r0)[:, None] & (n < C - c0)[None, :])
