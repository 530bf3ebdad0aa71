"""Dequantize packed 4-bit weights into a dense tensor: the first half of dequantize-then-GEMM on a GPU."""

import torch
import triton
import triton.language as tl

from ...jit.call import KernelCall
from ..inputs import FourBitInputs
from ..triton_codes import exact_planes
from ..triton_providers import packed_view, scale_operands, scales, target_isa
from .decode import decode_word, load_table
from .tiles import join8, load_scale, load_zero

BLOCK_WORDS = 1024
"""Words of 8 elements per program: 16 bytes per lane of four waves of 64, and whole blocks of every block size."""


@triton.jit(do_not_specialize=["numel"])
def dequantize_4bit_kernel(
    packed, absmax, q, nested_code, nested_offset, out, numel,
    P3: tl.constexpr, P2: tl.constexpr, P1: tl.constexpr, P0: tl.constexpr, GROUP: tl.constexpr,
    SCALES: tl.constexpr, ALIGNED: tl.constexpr, MASKED: tl.constexpr, BW: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """out[i] = (code[nibble i] - zero[j]) * absmax[j], j = i // GROUP: fp32, rounded once to the type of `out`.

    packed      int32 view when ALIGNED (numel a multiple of 8), else bytes; absmax ... as in `tiles.load_scale`
    out         [numel] bf16, fp16 or fp32, contiguous
    MASKED      numel is not a multiple of BW * 8 (loads and stores are then narrow)
    One program writes BW * 8 elements; grid (cd(numel, BW * 8)). Traffic: every operand once.
    """
    first = tl.program_id(0).to(tl.int64) * BW
    words = tl.arange(0, BW)
    left = tl.minimum(numel - first * 8, BW * 8).to(tl.int32)
    if not MASKED:
        word = tl.load(packed + first + words)
    elif ALIGNED:
        word = tl.load(packed + first + words, mask=words * 8 < left, other=0)
    else:
        word = words * 0
        for j in tl.static_range(4):
            byte = tl.load(packed + first * 4 + (words * 4 + j), mask=(words * 4 + j) * 2 < left, other=0)
            word = word | (byte.to(tl.int32) << (8 * j))
    e0, e1, e2, e3, e4, e5, e6, e7 = decode_word(word, load_table(P3, P2, P1, P0, ISA), P3, P2, P1, P0, ISA)
    BLOCKS: tl.constexpr = BW * 8 // GROUP
    block = tl.arange(0, BLOCKS)
    first_block = first * 8 // GROUP
    s = load_scale(absmax, q, nested_code, nested_offset, first_block, block, block * GROUP < left, SCALES, MASKED)
    s = tl.reshape(tl.broadcast_to(s[:, None], [BLOCKS, BW // BLOCKS]), [BW])
    if SCALES == "zero point":
        z = load_zero(q, first_block, block, block * GROUP < left, MASKED)
        z = tl.reshape(tl.broadcast_to(z[:, None], [BLOCKS, BW // BLOCKS]), [BW])
        e0, e1, e2, e3, e4, e5, e6, e7 = e0 - z, e1 - z, e2 - z, e3 - z, e4 - z, e5 - z, e6 - z, e7 - z
    kind = out.dtype.element_ty
    w = join8(
        (e0 * s).to(kind), (e1 * s).to(kind), (e2 * s).to(kind), (e3 * s).to(kind),
        (e4 * s).to(kind), (e5 * s).to(kind), (e6 * s).to(kind), (e7 * s).to(kind),
    )  # fmt: skip
    inner = tl.arange(0, BW * 8)
    if MASKED:
        tl.store(out + first * 8 + inner, tl.reshape(w, [BW * 8]), mask=inner < left)
    else:
        tl.store(out + first * 8 + inner, tl.reshape(w, [BW * 8]))


def dequantize_call(inputs: FourBitInputs, out: torch.Tensor, isa: str = "") -> KernelCall:
    """Overwrite `out` with W[N,K] in the dtype of `out`.

    out  contiguous, N*K elements, bf16, fp16 or fp32, on the device of `inputs`. The values are those of
         `quantize.dequantize`, to the bit when the scheme is not nested (nested absmax is rebuilt with a fused
         multiply-add, which may differ in its last bit). Raises ValueError for another size or a strided tensor.
    isa  the instruction set of the decode, where it is not that of the device
    """
    weight = inputs.weight
    if out.numel() != weight.numel or not out.is_contiguous():
        raise ValueError(f"dequantize into a contiguous tensor of {weight.numel} elements, not {tuple(out.shape)}")
    packed, aligned = packed_view(weight.packed, weight.numel % 8 == 0)
    planes = exact_planes(weight.kind)
    constants = {
        **{name: value for name, value in planes.constants().items() if name != "SCALE"},
        "GROUP": weight.group,
        "SCALES": scales(inputs.scheme),
        "ALIGNED": aligned,
        "MASKED": not aligned or weight.numel % (BLOCK_WORDS * 8) != 0,
        "BW": BLOCK_WORDS,
        "ISA": isa or target_isa(inputs.device),
    }
    grid = (-(-weight.numel // (BLOCK_WORDS * 8)), 1, 1)
    arguments = {"packed": packed, **scale_operands(inputs), "out": out, "numel": weight.numel}
    return KernelCall(dequantize_4bit_kernel, grid, arguments, constants, {"num_warps": 4, "num_stages": 2})
