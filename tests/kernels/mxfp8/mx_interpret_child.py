"""Run MX-FP8 kernels in Triton's interpreter. Started with TRITON_INTERPRET=1; cases come and results go as JSON."""

import json
import sys

import interpreter_repairs
import numpy as np
import torch
from devices import CPU
from rooflens.kernels.mxfp8 import providers, stock
from rooflens.kernels.mxfp8.inputs import make_inputs
from rooflens.kernels.mxfp8.quantize import LARGEST_MANTISSA, quantize_mx
from rooflens.kernels.mxfp8.triton import quantize as triton_quantize
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8 import MxFp8


def values(q, scales):
    """Payload times scale in fp64, from the definitions of e4m3 and e8m0."""
    bits = q.view(torch.uint8).numpy().astype(np.int64)
    exponent, mantissa = (bits >> 3) & 15, bits & 7
    size = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10))
    signed = np.where(bits & 0x80, -size, size)
    return signed * np.repeat(2.0 ** (scales.numpy().astype(np.float64) - 127), 32, axis=-1)


def run_gemm(case):
    problem = Problem(case["M"], case["N"], case["K"])
    inputs = make_inputs(problem, MxFp8("rceil", DType.BF16), CPU, case.get("seed", 1))
    provider = stock.STOCK_TRITON if case["config"].get("kernel") is None else providers.MMA
    launch = provider.prepare(inputs, case["config"])
    for seed in range(case.get("launches", 1)):  # every launch reads X anew, and finds its counters at zero again
        inputs.refresh_activations(seed)
        launch.output.fill_(torch.nan)
        launch()
    reference = values(inputs.x, inputs.x_scale) @ values(inputs.w, inputs.w_scale).T
    error = reference - launch.output.double().numpy()
    rounding = np.abs(reference) * 2.0**-8 + 1e-6 * np.sqrt((reference**2).mean())
    return {
        "snr_db": float(10 * np.log10((reference**2).sum() / (error**2).sum())),
        "beyond_rounding": int((~(np.abs(error) <= rounding)).sum()),
        "kernels": list(launch.kernels),
    }


def run_quantize(case):
    generator = torch.Generator().manual_seed(case["seed"])
    x = torch.randn(case["rows"], case["K"], generator=generator)
    x *= torch.exp2(torch.randint(-120, 100, (case["rows"], 1), generator=generator).float())
    x[0, :32] = 0
    x[-1, -1] = torch.inf
    x = x.bfloat16()
    payload = torch.full(x.shape, 255, dtype=torch.uint8)
    scales = torch.full((x.shape[0], x.shape[1] // 32), 255, dtype=torch.uint8)
    blocks, each = scales.numel(), 16
    triton_quantize.quantize_mx_kernel[(-(-blocks // each),)](
        x, payload, scales, blocks, LARGEST_MANTISSA=LARGEST_MANTISSA[case["rule"]], NATIVE=case["native"],
        MASKED=blocks % each != 0, BLOCKS=each,
    )  # fmt: skip
    q, expected = quantize_mx(x, case["rule"])
    out = torch.full(x.shape, torch.nan, dtype=torch.bfloat16)
    triton_quantize.dequantize_mx_kernel[(-(-blocks // each),)](
        payload, scales, out, blocks, MASKED=blocks % each != 0, BLOCKS=each
    )
    finite = (scales != 255).repeat_interleave(32, -1)
    exact = torch.from_numpy(values(payload, torch.where(scales == 255, 0, scales)))
    return {
        "payload": int((payload != q.view(torch.uint8)).sum()),
        "scales": int((scales != expected).sum()),
        "not_a_number": int((scales == 255).sum()),
        "decoded": int((out.double() != exact)[finite].sum()),
    }


if __name__ == "__main__":
    interpreter_repairs.repair()
    handlers = {"gemm": run_gemm, "quantize": run_quantize}
    print(json.dumps([handlers[case["step"]](case) for case in json.load(sys.stdin)]))
