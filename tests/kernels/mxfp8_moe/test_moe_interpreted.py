"""Every Triton kernel of the family against an fp64 product, in Triton's interpreter."""

import random
from dataclasses import replace

import pytest
import torch
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.jit.call import compile_calls
from rooflens.kernels.jit.tiles import Tile
from rooflens.kernels.mxfp8_moe.providers import moe_call
from rooflens.kernels.mxfp8_moe.routing import align, empty_aligned
from rooflens.kernels.mxfp8_moe.triton.align import align_calls
from rooflens.kernels.mxfp8_moe.triton.dequantize import dequantize_call
from rooflens.kernels.mxfp8_moe.triton.gemv import gemv_moe_kernel
from rooflens.kernels.mxfp8_moe.triton.grouped import grouped_moe_kernel
from rooflens.kernels.mxfp8_moe.triton.stock import stock_moe_kernel
from rooflens.kernels.mxfp8_moe.triton_configs import Traits
from rooflens.kernels.reference import measure
from rooflens.shapes.problem import Op, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8_moe import MxFp8Moe

from ..devices import CPU
from ..interpreter import interpreted

TRAITS = {
    "cuda": Traits(math="blocks", decode="cvt", direct=False, words=True, isa=""),
    "amd": Traits(math="blocks", decode="bits", direct=True, words=False, isa=""),
    "scaled": Traits(math="scaled", decode="cvt", direct=True, words=False, isa=""),
}


def check(
    kernel, sizes, tile, traits="cuda", *, wide=True, weighted=False, absent=(), all_to=None, extreme=False,
    launches=1, seed=1,
):  # fmt: skip
    """`sizes`: M, N, K, E, top_k; `tile`: BLOCK_M, BLOCK_N, BLOCK_K, and parts of K."""
    m, n, k, experts, top_k = sizes
    scheme = MxFp8Moe("rceil", DType.BF16, weighted)
    inputs = make_inputs(Problem(m, n, k, op=Op.MOE_GEMM, E=experts, top_k=top_k), scheme, CPU, seed)
    if all_to is not None:
        inputs = replace(inputs, topk_ids=torch.full_like(inputs.topk_ids, all_to))
    if extreme:  # the smallest and largest scales whose products are normal numbers
        inputs.w_scale[:, ::2] = 20
        inputs.x_scale[:] = 230
    expert_map = torch.arange(experts, dtype=torch.int32)
    expert_map[list(absent)] = -1
    config = Tile(*tile[:3], 4, 2, *tile[3:]).as_json()
    aligned = align(inputs.topk_ids, config["BLOCK_M"], experts, expert_map)
    output = inputs.empty_output()
    launch = compile_calls([moe_call(kernel, inputs, aligned, output, config, wide, TRAITS[traits])])
    for number in range(launches):  # every launch must read X anew, and find its counters at zero again
        if not extreme:
            inputs.refresh_activations(number)
        output.fill_(torch.nan)
        launch.run()
    (reference,) = inputs.reference()
    reference[torch.isin(inputs.topk_ids.reshape(-1), torch.tensor(absent, dtype=torch.int32))] = 0
    failure = measure(output, reference).failure(scheme)
    assert not failure, (failure, sizes, tile, traits)
    assert launch.kernels == (kernel.__name__,)


# What each line adds: whole blocks of a_div 3; tails of N and K, K divided, weights, two launches; one token; an expert
# that gets all rows and others none; absent experts (zeros); K of one scale block; extreme scales.
LINES = (
    ((5, 32, 256, 4, 3), (8, 16, 128), {}),
    ((3, 40, 160, 5, 2), (16, 32, 64, 2), {"weighted": True, "launches": 2}),
    ((1, 24, 128, 6, 2), (8, 16, 128), {}),
    ((13, 16, 96, 4, 1), (4, 16, 64, 2), {"all_to": 2}),
    ((6, 20, 128, 5, 3), (8, 16, 128, 2), {"absent": [0, 3], "weighted": True}),
    ((2, 17, 32, 3, 2), (16, 16, 32), {"weighted": True}),
    ((2, 16, 128, 3, 2), (8, 16, 128), {"extreme": True}),
)


@pytest.mark.parametrize(
    "traits", [pytest.param(name, marks=pytest.mark.slow if name == "amd" else ()) for name in TRAITS]
)
@interpreted
def test_grouped(traits):
    for number, (sizes, tile, more) in enumerate(LINES):
        check(grouped_moe_kernel, sizes, tile, traits, wide=number % 2 == 0, **more)


@interpreted
def test_gemv():
    tiles = ((4, 8, 128), (4, 16, 64), (4, 16, 128), (4, 16, 64), (4, 16, 128), (4, 16, 32), (4, 16, 128))
    for number, ((sizes, _, more), tile) in enumerate(zip(LINES, tiles, strict=True)):
        check(gemv_moe_kernel, sizes, tile, ("cuda", "amd")[number % 2], wide=number % 3 == 0, **more)
    for rows in (1, 2, 3, 4, 5):  # of one expert
        traits = ("amd", "cuda")[rows % 2]
        check(gemv_moe_kernel, (rows, 16, 128, 2, 1), (4, 16, 128), traits, all_to=1, weighted=True)


@interpreted
def test_stock():
    for sizes, _, more in LINES:
        if sizes[2] % 128 == 0:
            check(stock_moe_kernel, sizes, (16, 32, 128), "scaled", **more)


def check_align(topk_ids, block, experts, expert_map=None):
    """The layout is that of torch, launch after launch; the slots of an expert are in any order."""
    aligned = empty_aligned(topk_ids.numel(), block, experts, topk_ids.device)
    launches = compile_calls(align_calls(topk_ids, aligned, experts, expert_map))
    for _ in range(2):
        for tensor in (aligned.sorted_ids, aligned.expert_ids, aligned.padded):
            tensor.fill_(-7)
        launches.run()
    truth = align(topk_ids, block, experts, expert_map)
    assert torch.equal(aligned.padded, truth.padded)
    assert torch.equal(aligned.expert_ids, truth.expert_ids)
    expert_of = torch.cat([topk_ids.reshape(-1), topk_ids.new_tensor([experts])])
    ours, theirs = (expert_of[one.sorted_ids.clamp_max(topk_ids.numel())] for one in (aligned, truth))
    assert torch.equal(ours, theirs)
    assert torch.equal(aligned.sorted_ids.sort().values, truth.sorted_ids.sort().values)


@interpreted
def test_align_on_the_device():
    draw = random.Random(5)
    for block, experts, topk_ids, expert_map in (
        (4, 4, [[1, 2, 3], [0, 1, 3], [0, 2, 3], [0, 1, 2]], None),
        (4, 4, [[1, 2, 3], [0, 1, 3]], torch.tensor([-1, 0, -1, 1], dtype=torch.int32)),
        (16, 7, [[5]] * 40, None),
        (1, 3, [[2, 0]], None),
        (3, 9, [draw.sample(range(9), 2) for _ in range(600)], None),
    ):
        check_align(torch.tensor(topk_ids, dtype=torch.int32), block, experts, expert_map)


@pytest.mark.parametrize("arch", ["sm90", "gfx942"])  # one converts, one shifts
@interpreted
def test_dequantize_is_exact(arch):
    """Every payload byte that is a number, times two scales."""
    payload = torch.arange(256, dtype=torch.uint8).repeat(2)
    payload[payload & 127 == 127] = 0
    payload = payload.view(torch.float8_e4m3fn)
    scales = torch.tensor([127] * 8 + [0, 1, 100, 119, 130, 131, 132, 133], dtype=torch.uint8)
    out = torch.full((512,), torch.nan, dtype=torch.bfloat16)
    compile_calls([dequantize_call(payload, scales, out, arch)]).run()
    exact = payload.double().unflatten(0, (-1, 32)) * torch.exp2(scales.double() - 127)[:, None]
    assert torch.equal(out, exact.flatten().bfloat16())
