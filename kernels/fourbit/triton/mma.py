"""mma_4bit: dequantization in registers, feeding the matrix instructions through tl.dot."""

import triton
import triton.language as tl

from .decode import load_table
from .tiles import join8, narrow, open_rows, store_sum, weight_tile


@triton.jit(do_not_specialize=["M", "N", "k_units", "split_tiles"])
def mma_4bit_kernel(
    x, packed, absmax, q, nested_code, nested_offset, bias, y, partial, counter, M, N, k_units, split_tiles,
    P3: tl.constexpr, P2: tl.constexpr, P1: tl.constexpr, P0: tl.constexpr, SCALE: tl.constexpr,
    K_UNIT: tl.constexpr, GROUP: tl.constexpr, WHOLE: tl.constexpr, MASKED: tl.constexpr, SCALES: tl.constexpr,
    BIAS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BW: tl.constexpr, SPLIT: tl.constexpr,
    STAGES: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """Y[M,N] = X[M,K] W[N,K]^T + bias, W in 4 bits; operands as in `simt.simt_4bit_kernel`.

    One program computes BM x BN outputs, as the transposed product W[BN, 8 BW] X[BM, 8 BW]^T: N, not the small M, is
    then the long side of the instruction, and the weights are the operand that may come from registers (wgmma). A
    weight is code (`triton_codes.gemm_planes`) times absmax in fp32, rounded to the type of X. fp32 operands are
    multiplied as fp32 ("ieee"), on the vector units where the hardware has no such matrix instruction.
    Grid and traffic: as simt_4bit.
    """
    ALIGNED: tl.constexpr = K_UNIT % 8 == 0
    k_size = k_units * K_UNIT
    m_blocks = (M + BM - 1) // BM
    tile = tl.program_id(0)
    split = tl.program_id(1)
    row0 = tile // m_blocks * BN
    m0 = tile % m_blocks * BM
    rows = open_rows(packed, row0, N, k_size, BN, GROUP, ALIGNED)
    table = load_table(P3, P2, P1, P0, ISA)
    x += m0.to(tl.int64) * k_size
    x_row = tl.minimum(tl.arange(0, BM), M - 1 - m0)[:, None] * k_size
    inner = tl.arange(0, BW * 8)[None, :]
    acc = tl.zeros([BN, BM], tl.float32)
    begin = split * split_tiles * BW
    for word0 in tl.range(begin, tl.minimum(begin + split_tiles * BW, (k_size + 7) // 8), BW, num_stages=STAGES):
        e0, e1, e2, e3, e4, e5, e6, e7, s = weight_tile(
            rows, absmax, q, nested_code, nested_offset, table, word0, k_size,
            P3, P2, P1, P0, BN, BW, GROUP, ALIGNED, WHOLE, MASKED, SCALES, False, ISA,
        )  # fmt: skip
        s *= SCALE
        k = word0 * 8 + inner
        if MASKED:
            x_tile = tl.load(x + x_row + k, mask=k < k_size, other=0.0)
        else:
            x_tile = tl.load(x + x_row + k)
        kind: tl.constexpr = x.dtype.element_ty
        w = join8(
            narrow(e0 * s, kind, ISA), narrow(e1 * s, kind, ISA), narrow(e2 * s, kind, ISA), narrow(e3 * s, kind, ISA),
            narrow(e4 * s, kind, ISA), narrow(e5 * s, kind, ISA), narrow(e6 * s, kind, ISA), narrow(e7 * s, kind, ISA),
        )  # fmt: skip
        acc = tl.dot(tl.reshape(w, [BN, BW * 8]), tl.trans(x_tile), acc, input_precision="ieee")
    store_sum(
        tl.trans(acc), y, bias, partial, counter, m0 + tl.arange(0, BM), row0 + tl.arange(0, BN), M, N, tile, split,
        BIAS, SPLIT, ISA,
    )  # fmt: skip
