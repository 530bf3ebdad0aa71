"""The layout nt on sm90, warp-specialized: C[R,C] = A[R,D] B[C,D]^T of row-major FP8, bf16 results.

One program per multiprocessor works through tiles. One warp group fetches blocks of BK = 128 of both operands into
shared memory with the tensor memory accelerator; two others multiply and promote 64 of the 128 rows each, out of step
with each other, so that the matrix unit multiplies for one while the other applies its scales:
acc += (A block . B block) * scale of A * scale of B, in fp32.

Triton forms those groups out of the loop over tiles with num_warps = 4 and BM = 128. The descriptors of the operands
are made in the kernel, because A's is rewritten for tiles of 64 rows; `triton_scratch` provides memory for them.
"""

import triton
import triton.language as tl

from .tiles import accumulate, clamped, column_scales, row_scales, store_tile


@triton.jit
def nt_persistent_kernel(
    a, b, c, a_scale, b_scale, R, C, D, a_scale_r, a_scale_d, b_scale_c, b_scale_d,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
    SCALE_2D_B: tl.constexpr, EVEN_R: tl.constexpr, EVEN_C: tl.constexpr,
):  # fmt: skip
    """A[R,D], B[C,D] -> C[R,C]; arguments as `nt_gemm_kernel`, D a multiple of 16, pointers of 16 bytes.

    Blocks that reach over an edge are filled with zeros. Any grid of one dimension. Traffic: A cd(C,BN) times and B
    cd(R,BM) times, mostly from L2; C once.
    """
    a_tiles = tl.make_tensor_descriptor(a, [R, D], [D, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b, [C, D], [D, 1], [BN, BK])
    r_tiles = tl.cdiv(R, BM)
    c_tiles = tl.cdiv(C, BN)
    blocks = tl.cdiv(D, BK)
    for tile in tl.range(tl.program_id(0), r_tiles * c_tiles, tl.num_programs(0), warp_specialize=True):
        r0, c0 = _origin(tile, r_tiles, c_tiles, BM, BN, GROUP_M)
        a_scales = row_scales(a_scale, r0, clamped(BM, R - r0, EVEN_R), a_scale_r)
        b_scales = column_scales(b_scale, c0, clamped(BN, C - c0, EVEN_C), b_scale_c, SCALE_2D_B)
        acc = tl.zeros([BM, BN], tl.float32)
        for i in range(blocks):
            x = a_tiles.load([r0, i * BK])
            y = b_tiles.load([c0, i * BK]).T
            # before the product, so that their latency passes while it is computed
            s = tl.load(a_scales + i * a_scale_d)
            t = tl.load(b_scales + i * b_scale_d)
            acc = accumulate(acc, x, y, s, t, SCALE_2D_B)
        store_tile(c, acc, r0, c0, R, C, BM, BN, EVEN_R and EVEN_C)


@triton.jit
def nt_wide_kernel(
    a, b, c, a_scale, b_scale, R, C, D, a_scale_r, a_scale_d, b_scale_c, b_scale_d,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, SCALES_FIRST: tl.constexpr,
):  # fmt: skip
    """The same for tiles of 128 x 256, two of BM x BN = 128 x 128 beside each other, which share the block of A.

    R and C are multiples of 128 and 256; all 128 columns that share a block of B have one scale. SCALES_FIRST:
    a_scale_r is 1. Accumulators take 192 of 232 registers: how addresses are written decides what fits beside them.
    Traffic: A C / 256 times and B R / 128 times, mostly from L2; C once.
    """
    a_tiles = tl.make_tensor_descriptor(a, [R, D], [D, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b, [C, D], [D, 1], [BN, BK])
    r_tiles = tl.cdiv(R, BM)
    c_tiles = tl.cdiv(C, 2 * BN)
    blocks = tl.cdiv(D, BK)
    for tile in tl.range(tl.program_id(0), r_tiles * c_tiles, tl.num_programs(0), warp_specialize=True):
        r0, c0 = _origin(tile, r_tiles, c_tiles, BM, 2 * BN, GROUP_M)
        if SCALES_FIRST:
            a_scales = row_scales(a_scale, r0, tl.arange(0, BM), a_scale_r)
            a_step = a_scale_d + tl.zeros([], tl.int64)
        else:
            a_scales = a_scale + r0.to(tl.int64) * a_scale_r
            offsets = tl.arange(0, BM) * a_scale_r
        b_offset = c0 // 128 * b_scale_c
        left = tl.zeros([BM, BN], tl.float32)
        right = tl.zeros([BM, BN], tl.float32)
        for i in range(blocks):
            x = a_tiles.load([r0, i * BK])
            y = b_tiles.load([c0, i * BK]).T
            if SCALES_FIRST:
                s = tl.load(a_scales + i * a_step)
            else:
                s = tl.load(a_scales + (offsets + i * a_scale_d))
            t = tl.load(b_scale + (b_offset + i * b_scale_d))
            left = accumulate(left, x, y, s, t, True)
            y = b_tiles.load([c0 + BN, i * BK]).T
            t = tl.load(b_scale + (b_offset + b_scale_c + i * b_scale_d))
            right = accumulate(right, x, y, s, t, True)
        store_tile(c, left, r0, c0, R, C, BM, BN, True)
        store_tile(c, right, r0, c0 + BN, R, C, BM, BN, True)


@triton.jit
def _origin(tile, r_tiles, c_tiles, ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUP_M: tl.constexpr):
    """First row and column of a tile: GROUP_M tile rows share columns of B while they are in L2."""
    per_group = GROUP_M * c_tiles
    first = tile // per_group * GROUP_M
    rows = tl.minimum(r_tiles - first, GROUP_M)
    return (first + tile % per_group % rows) * ROWS, tile % per_group // rows * COLUMNS
