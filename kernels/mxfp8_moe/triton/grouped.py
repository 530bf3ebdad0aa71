"""grouped_moe: one launch over the blocks of the sorted slots, on the matrix units."""

import triton
import triton.language as tl

from .tiles import block_rows, decode, scale_bytes, scale_value, store_rows


@triton.jit
def load_tile(base, row, k0, k_size, ROWS: tl.constexpr, BK: tl.constexpr, DIRECT: tl.constexpr, MASKED: tl.constexpr):
    """Bytes [BK / 32, ROWS, 32] of rows at the offsets `row` [ROWS], from column k0 on; 0 beyond the row.

    DIRECT  addressed in this shape; otherwise as [ROWS, BK], which NVIDIA's asynchronous copies read in whole lines
            (on AMD the compiler would take that tile apart byte by byte)
    """
    G: tl.constexpr = BK // 32
    if DIRECT:
        k = k0 + tl.arange(0, G)[:, None, None] * 32 + tl.arange(0, 32)[None, None, :]
        pointer = base + row[None, :, None] + k
    else:
        k = k0 + tl.arange(0, BK)[None, :]
        pointer = base + row[:, None] + k
    if MASKED:
        tile = tl.load(pointer, mask=k < k_size, other=0)
    else:
        tile = tl.load(pointer)
    if not DIRECT:
        tile = tl.permute(tl.reshape(tile, [ROWS, G, 32]), 1, 0, 2)
    return tile


@triton.jit(do_not_specialize=["numel", "N", "length", "blocks", "a_div", "split_tiles"])
def grouped_moe_kernel(
    x, x_scale, w, w_scale, sorted_ids, expert_ids, padded, weights, y, partial, counter,
    numel, length, N, K, blocks, a_div, split_tiles,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr, STAGES: tl.constexpr,
    MATH: tl.constexpr, DECODE: tl.constexpr, DIRECT: tl.constexpr, WORDS: tl.constexpr, MASKED: tl.constexpr,
    WEIGHTED: tl.constexpr, WIDE: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """Y[slot, n] = sum_k X[slot // a_div, k] W[expert of slot, n, k], times weights[slot] when WEIGHTED.

    x, x_scale    payload e4m3fn [M, K] as bytes, and e8m0 scales [M, K/32] as bytes or words (WORDS), row-major
    w, w_scale    [E, N, K] and [E, N, K/32], likewise
    sorted_ids    int32, expert_ids int32, padded int32 [1]: `routing.Aligned` with blocks of BM rows
    weights       fp32 [numel] or None; y bf16 [numel, N]; partial, counter: `tiles.store_rows`
    length        elements of sorted_ids
    K             a multiple of 32; split_tiles  tiles of BK per program of axis 1
    MATH          "scaled": tl.dot_scaled. "blocks": a dot per 32 elements on fp16 copies of the payload, whose result
                  is multiplied by both scales in fp32: exact products, and one multiplication per 32 weights instead of
                  one per weight. The sums of the BK / 32 blocks of a tile stay apart until the end.
    WIDE          offsets into x, w and y are 64-bit; otherwise E N K, M K and their scales must be below 2^31

    One program computes BN columns for one block of BM slots over its share of K: grid (blocks * cd(N, BN), SPLIT),
    blocks of the same columns next to each other. Programs of blocks that are not in use leave at once; those of absent
    experts (-1) write zeros. The weights are the first operand, so that N and not the few rows is the long side of the
    matrix instruction.

    Traffic: the weights of a hit expert once per block of its rows (neighbouring programs: from L2), rows of X
    cd(N, BN) times (from L2), Y once; with SPLIT > 1 also SPLIT fp32 copies of Y, written and read.
    """
    tile = tl.program_id(0)
    split = tl.program_id(1)
    first = tile % blocks * BM
    # All that decides what is read is loaded before the branch: three latencies of memory at once, not one by one.
    end = tl.load(padded)
    expert = tl.load(expert_ids + tile % blocks)
    slots, live, rows = block_rows(sorted_ids, numel, length, a_div, first, BM)
    if first >= end:
        return
    n = tile // blocks * BN + tl.arange(0, BN)
    G: tl.constexpr = BK // 32
    groups = K // 32
    UNIT: tl.constexpr = 4 if WORDS else 1
    units = groups // UNIT
    column = tl.minimum(n, N - 1)
    if WIDE:
        base = expert.to(tl.int64) * N
        w += base * K
        w_scale += base * units
        rows = rows.to(tl.int64)
        w_row = column * K
        ws_row = column * units
    else:
        column += expert * N
        w_row = column * K
        ws_row = column * units
    if MATH == "scaled":
        acc = tl.zeros([BN, BM], tl.float32)
    else:
        acc = tl.zeros([G, BN, BM], tl.float32)
    if expert >= 0:
        begin = split * split_tiles * BK
        for k0 in tl.range(begin, tl.minimum(begin + split_tiles * BK, K), BK, num_stages=STAGES):
            if MATH == "scaled":
                k = k0 + tl.arange(0, BK)[None, :]
                group = k0 // 32 + tl.arange(0, G)[None, :]
                if MASKED:
                    w_tile = tl.load(w + w_row[:, None] + k, mask=k < K, other=0)
                    x_tile = tl.load(x + (rows * K)[:, None] + k, mask=k < K, other=0)
                    ws = tl.load(w_scale + ws_row[:, None] + group, mask=group < groups, other=0)
                    xs = tl.load(x_scale + (rows * groups)[:, None] + group, mask=group < groups, other=0)
                else:
                    w_tile = tl.load(w + w_row[:, None] + k)
                    x_tile = tl.load(x + (rows * K)[:, None] + k)
                    ws = tl.load(w_scale + ws_row[:, None] + group)
                    xs = tl.load(x_scale + (rows * groups)[:, None] + group)
                acc = tl.dot_scaled(
                    w_tile.to(tl.float8e4nv, bitcast=True), ws, "e4m3",
                    tl.trans(x_tile.to(tl.float8e4nv, bitcast=True)), xs, "e4m3", acc,
                )  # fmt: skip
            else:
                w_tile = load_tile(w, w_row, k0, K, BN, BK, DIRECT, MASKED)
                x_tile = load_tile(x, rows * K, k0, K, BM, BK, DIRECT, MASKED)
                ws = scale_bytes(w_scale, ws_row, k0 // 32, groups, BN, G, WORDS, MASKED)
                xs = scale_bytes(x_scale, rows * units, k0 // 32, groups, BM, G, WORDS, MASKED)
                part = tl.dot(decode(w_tile, DECODE), tl.permute(decode(x_tile, DECODE), 0, 2, 1))
                scale = scale_value(tl.trans(ws))[:, :, None] * scale_value(tl.trans(xs))[:, None, :]
                acc += part * scale
    if MATH == "scaled":
        total = acc
    else:
        total = tl.sum(acc, axis=0)
    store_rows(
        total, y, weights, partial, counter, slots, live, n, numel, N, tile, split, WEIGHTED, SPLIT, ISA
    )  # fmt: skip
