"""cuda_mx without a GPU: its very source on emulated threads, its machine code, and what it refuses.

On a GPU, the tests of all providers run it.
"""

from dataclasses import replace

import pytest
import torch
from rooflens.kernels.inputs import make_inputs, placeholders
from rooflens.kernels.mxfp8 import cuda_provider
from rooflens.kernels.mxfp8.cuda_provider import CUDA_MX
from rooflens.shapes.problem import Problem

from ..cuda_emulation import check_stream_k, emulate, machine_code, needs_compiler, needs_nvrtc
from ..devices import CPU, H200
from ..synthetic import scheme_of

SCHEME = scheme_of("mxfp8-rceil")

CASES = (  # rows of W, parts of columns and stages, M, N, K, blocks of threads
    ((64, 1, 3), (1, 75, 640), 5),  # N ends within a tile, tiles are shared
    ((64, 1, 2), (8, 64, 384), 1),
    ((64, 2, 2), (13, 200, 512), 7),
    ((64, 2, 2), (20, 75, 640), 5),
    ((64, 1, 2), (32, 64, 1152), 4),  # a tile of four blocks
    ((8, 1, 3), (33, 75, 640), 3),
    ((24, 1, 2), (40, 128, 384), 2),
    ((48, 2, 4), (64, 130, 512), 3),
    ((16, 1, 3), (50, 48, 1152), 12),  # tiles of four blocks
    ((40, 2, 2), (64, 40, 1152), 7),  # a tile of seven
    ((24, 1, 3), (37, 48, 1664), 2),
    ((16, 1, 5), (33, 20, 128), 2),  # fewer steps than stages
    ((64, 2, 4), (8, 256, 128), 1),  # one part of the columns may run ahead
    ((24, 2, 4), (36, 96, 128), 1),
    *(((64, 2, 4), (16, 75, 256), 2), ((64, 2, 3), (64, 130, 512), 2), ((56, 2, 2), (64, 200, 384), 4)),
)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("tile", "sizes", "blocks"), CASES)
def test_emulated(tile, sizes, blocks, tmp_path):
    inputs = make_inputs(Problem(*sizes), SCHEME, CPU, seed=5)
    config = dict(zip(("ROWS", "SPLIT", "STAGES", "RESIDENT", "BLOCKS"), (*tile, 1, blocks), strict=True))
    check_stream_k(CUDA_MX, inputs, config, tmp_path, lambda plan: 54)  # as rounding the output to bf16 leaves it


@needs_compiler
@pytest.mark.parametrize("m", [3, 40])
def test_every_payload_and_scale(m, tmp_path):
    """All bytes but NaN, and all scales but NaN, against one element of X: its scale is 1/2, least or most."""
    drawn = make_inputs(Problem(m, 254, 128), SCHEME, CPU, seed=5)
    payloads = torch.tensor([byte for byte in range(256) if byte & 0x7F != 0x7F], dtype=torch.uint8)
    w = torch.zeros(254, 128, dtype=torch.uint8)
    w[:, 37] = payloads
    w_scale = torch.full((254, 4), 127, dtype=torch.uint8)
    w_scale[:, 1] = torch.arange(254)  # 2^-127 to 2^126
    x = torch.zeros(m, 128, dtype=torch.uint8)
    x[:, 37] = 0x38  # 1
    x_scale = torch.full((m, 4), 126, dtype=torch.uint8)
    x_scale[-2:, 1] = torch.tensor([0, 254])
    inputs = replace(
        drawn,
        x=x.view(torch.float8_e4m3fn),
        x_scale=x_scale,
        w=w.view(torch.float8_e4m3fn),
        w_scale=w_scale,
    )
    (output,) = inputs.empty_outputs()
    config = {"ROWS": 24 if m > 32 else 64, "SPLIT": 1, "RESIDENT": 1, "STAGES": 2, "BLOCKS": 2}
    emulate(CUDA_MX, CUDA_MX.plan(inputs, output, config), tmp_path)
    exponents = w_scale[:, 1].double() + x_scale[:, 1, None].double() - 254
    expected = payloads.view(torch.float8_e4m3fn).double() * 2.0**exponents
    taken = (exponents >= -149) & (exponents <= 127)
    assert taken.sum(1).min() > 100
    assert output[taken].equal(expected[taken].to(torch.bfloat16))


@needs_nvrtc
@pytest.mark.parametrize(
    ("m", "columns", "rows"),
    [(1, 8, 64), (16, 16, 64), (32, 32, 64), *((40, 64, rows) for rows in cuda_provider._B_ROWS)],
)
def test_machine_code(m, columns, rows):
    """Every tile compiles, fits as often as it should, and spills no registers; ptxas does not complain of wgmma."""
    inputs = placeholders(Problem(m, 6144, 2048), SCHEME, H200)
    first = CUDA_MX.candidates(inputs.problem, SCHEME, H200)[0]
    config = first | {"ROWS": rows, "STAGES": cuda_provider._stages(first["SPLIT"], first["RESIDENT"], rows, m)}
    plan = CUDA_MX.plan(inputs, inputs.empty_outputs()[0], config)
    geometry = CUDA_MX.geometry(inputs, config, plan)
    assert (geometry.tile_M, geometry.tile_N) == (columns, rows)
    _, registers, spilled = machine_code(CUDA_MX, plan.constants)
    assert registers * plan.threads * config["RESIDENT"] <= 65536
    assert (plan.shared_bytes + 1024) * config["RESIDENT"] <= 228 << 10
    assert spilled == 0
