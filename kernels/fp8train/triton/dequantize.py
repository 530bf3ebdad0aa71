"""Decode FP8 with its scales to bf16, in one pass over memory."""

import triton
import triton.language as tl


@triton.jit
def dequantize_kernel(
    data, scale, out, R, C, scale_r, ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUP_R: tl.constexpr,
    GROUP_C: tl.constexpr,
):  # fmt: skip
    """out[r,c] = data[r,c] * scale[r // GROUP_R, c // GROUP_C]: fp32 product, rounded once to the type of `out`.

    data   FP8 [R,C]; out  bf16 [R,C]; scale  fp32 with rows of scale_r elements; all row-major
    COLUMNS = 128, so that a tile meets one group of columns when GROUP_C is 128.
    One program takes a tile of ROWS x COLUMNS. Grid (cd(R, ROWS) * cd(C, COLUMNS)). Traffic: every operand once.
    """
    tiles = tl.cdiv(C, COLUMNS)
    r0 = tl.program_id(0) // tiles * ROWS
    c0 = tl.program_id(0) % tiles * COLUMNS
    r = tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    inside = (r < R - r0)[:, None] & (c < C - c0)[None, :]
    start = r0.to(tl.int64) * C + c0
    offsets = r[:, None] * C + c[None, :]
    v = tl.load(data + start + offsets, mask=inside, other=0.0).to(tl.float32)
    lines = scale + ((r0 + r) // GROUP_R).to(tl.int64) * scale_r
    if GROUP_C == 1:
        s = tl.load(lines[:, None] + (c0 + c)[None, :], mask=inside, other=0.0)
    else:
        s = tl.load(lines + c0 // GROUP_C, mask=r < R - r0, other=0.0)[:, None]
    tl.store(out + start + offsets, (v * s).to(out.dtype.element_ty), mask=inside)
