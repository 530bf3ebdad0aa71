"""Run the family's kernels in Triton's interpreter. Started with TRITON_INTERPRET=1; cases and results are JSON."""

import json
import sys
from dataclasses import replace

import interpreter_repairs
import torch
from devices import CPU
from rooflens.kernels.inputs import make_inputs, poison
from rooflens.kernels.reference import measure, measure_all
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme


def tile(block_m, block_n, group_m=2):
    return {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": 128, "GROUP_M": group_m, "num_warps": 4, "num_stages": 2}


def judge(provider, inputs, config):
    """Launch on the drawn operands, and again on other ones; SNR of every output, the lesser of both times."""
    launch = provider.prepare(inputs, config)
    worst = [float("inf")] * len(launch.outputs)
    for seed in (None, 77):
        if seed is not None:
            inputs.refresh_activations(seed)
        for output in launch.outputs:
            poison(output)
        launch()
        for number, (output, truth) in enumerate(zip(launch.outputs, inputs.reference(), strict=True)):
            worst[number] = min(worst[number], measure(output, truth).snr_db)
    return {"snr_db": worst, "kernels": list(launch.kernels)}


def run_gemm(case):
    from rooflens.kernels.fp8train.providers import SHARED, SPECIALISED

    problem = Problem(case["M"], case["N"], case["K"], pass_=Pass(case["pass"]))
    device = replace(CPU, arch=case["arch"], reported_chiplets=8 if case["arch"].startswith("gfx9") else 0)
    inputs = make_inputs(problem, parse_scheme(case["scheme"], DType.BF16), device, case.get("seed", 1))
    chosen = tile(*case["tile"]) | {name.upper(): case[name] for name in ("programs", "wide", "chunk") if name in case}
    config = {product.value: dict(chosen) for product in (Pass.FWD, Pass.DGRAD, Pass.WGRAD)}
    config |= {"K_MAJOR": case.get("k_major", False)}
    return judge(SHARED if case["provider"] == "shared" else SPECIALISED, inputs, config)


def run_stock(case):
    from rooflens.kernels.fp8train.stock import STOCK_TRITON

    problem = Problem(case["M"], case["N"], case["K"], pass_=Pass(case["pass"]))
    inputs = make_inputs(problem, parse_scheme(case["scheme"], DType.BF16), CPU, 1)
    return judge(STOCK_TRITON, inputs, tile(32, 32) | {"BLOCK_K": 32})


def run_dequant(case):
    from rooflens.kernels.fp8train.blas import DEQUANT_BLAS

    problem = Problem(case["M"], case["N"], case["K"], pass_=Pass(case["pass"]))
    inputs = make_inputs(problem, parse_scheme(case["scheme"], DType.BF16), CPU, 1)
    return judge(DEQUANT_BLAS, inputs, {"kernels": "triton"})


def scaled_mm(a, b, a_scale, a_kind, b_scale, b_kind, output_dtype):
    """What cuBLAS computes, from operands that lie as it wants them: a[R,D] and b[D,C] contiguous along D.

    1x128: scales [lines, blocks] with stride (1, lines); 128x128: [blocks of D filled up to 4, lines], along D as well
    """
    from torch.nn.functional import ScalingType

    assert a_kind is ScalingType.BlockWise1x128
    assert a.is_contiguous()
    assert b.t().is_contiguous()
    (rows, depth), columns = a.shape, b.shape[1]
    blocks = depth // 128
    assert a_scale.shape == (rows, blocks)
    assert a_scale.stride() == (1, rows)
    if b_kind is ScalingType.BlockWise1x128:
        assert b_scale.shape == (columns, blocks)
        assert b_scale.stride() == (1, columns)
        by_column = b_scale
    else:
        filled = -(-blocks // 4) * 4
        assert b_scale.shape == (filled, columns // 128)
        assert b_scale.stride() == (1, filled)
        assert not b_scale[blocks:].any()
        by_column = b_scale[:blocks].t().repeat_interleave(128, 0)
    left = a.double() * a_scale.double().repeat_interleave(128, 1)
    right = b.t().double() * by_column.double().repeat_interleave(128, 1)
    return (left @ right.t()).to(output_dtype)


def run_scaled_mm(case):
    from rooflens.kernels.fp8train.scaled_mm import TORCH_SCALED_MM

    torch.nn.functional.scaled_mm = scaled_mm
    problem = Problem(case["M"], case["N"], case["K"], pass_=Pass(case["pass"]))
    device = replace(CPU, arch="sm90")
    return judge(TORCH_SCALED_MM, make_inputs(problem, parse_scheme(case["scheme"], DType.BF16), device, 1), None)


def run_quantize(case):
    """Number of elements that differ from the plain torch quantizer, per output."""
    from rooflens.kernels.fp8train.quantizers import TRITON_QUANT

    problem = Problem(case["M"], 1, case["K"], op=Op.QUANTIZE)
    device = replace(CPU, arch=case["arch"])
    inputs = make_inputs(problem, parse_scheme(case["scheme"], DType.BF16), device, 5)
    inputs.x[0, : min(200, case["K"])] = 0.0  # a group of zeros, amax below its floor
    inputs.x[-1, -1] = 3.0e38
    config = dict(TRITON_QUANT.configs(inputs.scheme)[case.get("config", 0)])
    launch = TRITON_QUANT.prepare(inputs, config)
    for output in launch.outputs:
        poison(output)
    launch()
    different = [one.different for one in measure_all(launch.outputs, inputs.reference())]
    return {"different": different, "kernels": list(launch.kernels)}


def run_transposed_quantize(case):
    """Elements of the fused quantizer's transposed outputs that differ from the plain ones."""
    from rooflens.kernels.fp8train.quantize import Quantized, quantize
    from rooflens.kernels.fp8train.triton_calls import quantize_call, transpose_call, weight_call
    from rooflens.kernels.jit.call import compile_calls

    torch.manual_seed(3)
    m, k = case["M"], case["K"]
    x = torch.randn(m, k).bfloat16()
    types = (torch.float8_e4m3fn, torch.float8_e5m2)
    row, col, block = quantize(x, "row", types[0]), quantize(x, "col", types[1]), quantize(x, "weight", types[0])
    mine = [
        Quantized(torch.empty(m, k, dtype=types[0]), torch.empty(row.scale.shape[::-1]), "row"),
        Quantized(torch.empty(k, m, dtype=types[1]), torch.empty(col.scale.shape), "col"),
        Quantized(torch.empty(m, k, dtype=types[0]), torch.zeros(block.scale.shape[0], 8), "weight"),
    ]
    scale, turned_scale = mine[2].scale, torch.zeros(block.scale.shape[1], 12)
    rows, columns = block.scale.shape
    turned, back = torch.empty(k, m, dtype=types[0]), torch.empty(m, k, dtype=types[0])
    config = {"ROWS": 128, "COLUMNS": 128, "num_warps": 8}
    calls = [
        quantize_call(x, mine[0], mine[1], config, k_major=True, scales_first=True),
        weight_call(x, mine[2], turned, {"num_warps": 8}, turned_scale),
        transpose_call(turned, back),
    ]
    compile_calls(calls).run()  # the interpreter runs nothing while it "compiles"
    pairs = (
        (mine[0].data, row.data),
        (mine[0].scale.t(), row.scale),
        (mine[1].data.t(), col.data),
        (mine[1].scale, col.scale),
        (mine[2].data, block.data),
        (scale[:, :columns], block.scale),
        (turned_scale[:, :rows].t(), block.scale),
        (scale[:, columns:], torch.zeros(rows, 8 - columns)),
        (turned_scale[:, rows:], torch.zeros(columns, 12 - rows)),
        (turned.t(), block.data),
        (back, block.data),
    )
    return {"different": [int((a.float() != b.float()).sum()) for a, b in pairs]}


if __name__ == "__main__":
    interpreter_repairs.repair()
    handlers = {
        "gemm": run_gemm,
        "stock": run_stock,
        "dequant": run_dequant,
        "scaled_mm": run_scaled_mm,
        "quantize": run_quantize,
        "transposed": run_transposed_quantize,
    }
    print(json.dumps([handlers[case["step"]](case) for case in json.load(sys.stdin)]))
