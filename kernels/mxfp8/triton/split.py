"""The end of a GEMM program: add up the parts of a divided K, round, store."""

import triton
import triton.language as tl


@triton.jit
def store_tile(
    total, y, partial, counter, m0, n0, M, N, tile, split, BM: tl.constexpr, BN: tl.constexpr, SPLIT: tl.constexpr,
    ISA: tl.constexpr,
):  # fmt: skip
    """Write Y[m0 + m, n0 + n] = total[n, m], after adding up the parts of all programs of this tile when K is split.

    total    fp32 [BN, BM]
    y        bf16 [M, N]; rows and columns beyond it are not written
    partial  fp32 [tiles, SPLIT, BN, BM], scratch; counter  int32 [tiles], zero before and after every launch; both None
             when SPLIT is 1
    The program that arrives last adds the parts in their order, so that the result does not depend on timing.
    """
    if SPLIT > 1:
        place = tl.arange(0, BN)[:, None] * BM + tl.arange(0, BM)[None, :]
        partial += tile.to(tl.int64) * (SPLIT * BN * BM)
        tl.store(partial + split * (BN * BM) + place, total)
        if ISA == "cdna":
            # The atomic below releases the stores of its own wave, and what other waves have completed. Before a
            # barrier the compiler waits for stores on the other architectures, but not on these.
            tl.inline_asm_elementwise(
                "s_waitcnt vmcnt(0)\nv_mov_b32 $0, $1", "=v,v", [tile], dtype=tl.int32, is_pure=False, pack=1
            )
        tl.debug_barrier()  # all lanes have stored before one of them announces it
        if tl.atomic_add(counter + tile, 1, sem="acq_rel") == SPLIT - 1:
            total = tl.zeros_like(total)
            for part in range(SPLIT):
                total += tl.load(partial + part * (BN * BM) + place, cache_modifier=".cg")
            _store(total, y, m0, n0, M, N, BM, BN)
            tl.store(counter + tile, 0)
    else:
        _store(total, y, m0, n0, M, N, BM, BN)


@triton.jit
def _store(total, y, m0, n0, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.arange(0, BM)[:, None]
    n = tl.arange(0, BN)[None, :]
    y += m0.to(tl.int64) * N + n0
    tl.store(y + (m * N + n), tl.trans(total).to(y.dtype.element_ty), mask=(m < M - m0) & (n < N - n0))
