"""Run the A16W8 kernels in Triton's interpreter. Started with TRITON_INTERPRET=1; cases come and results go as JSON."""

import json
import sys
from dataclasses import replace

import interpreter_repairs
import torch
from devices import cpu
from rooflens.kernels.a16w8 import triton_configs, triton_providers
from rooflens.kernels.a16w8.inputs import make_inputs
from rooflens.kernels.a16w8.quantize import LEAST_AMAX, dequantize
from rooflens.kernels.a16w8.triton.dequantize import dequantize_call
from rooflens.kernels.jit.call import compile_calls
from rooflens.kernels.reference import measure
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

PROVIDERS = {
    provider.name: provider
    for provider in (
        triton_providers.TUNED,
        triton_providers.KERNEL,
        triton_providers.WRAPPER,
        triton_providers.STOCK_TRITON,
    )
}


def operands(case):
    problem = Problem(case["M"], case["N"], case["K"], case["B"])
    scheme = parse_scheme(case["scheme"], DType(case["dtype"]))
    return make_inputs(problem, scheme, cpu(case["arch"]), case["seed"])


def prequantized_product(inputs):
    """Y in fp64 of what the kernel multiplies: X rounded to FP8 per row and 128 columns."""
    depth = inputs.problem.K
    groups = torch.nn.functional.pad(inputs.x.float(), (0, -depth % 128)).unflatten(-1, (-1, 128))
    amax = groups.abs().amax(dim=-1, keepdim=True).clamp_(min=LEAST_AMAX)
    largest = torch.finfo(inputs.q.dtype).max
    inverse = torch.full_like(amax, largest) / amax  # `largest / amax` would be a reciprocal times `largest`
    q = (groups * inverse).clamp_(-largest, largest).to(inputs.q.dtype)
    x = (q.double() * (amax / largest).double()).flatten(-2)[..., :depth]
    product = torch.bmm(x, dequantize(inputs.weight, torch.float64).transpose(1, 2))
    return product if inputs.bias is None else product + inputs.bias.double().unsqueeze(1)


def run_gemm(case):
    inputs = operands(case)
    provider = PROVIDERS[case["provider"]]
    tile = triton_configs.TileConfig(*case["tile"])
    launch = provider.prepare(inputs, replace(tile, batch_inner=case["batch_inner"]).as_json())
    inputs.refresh_activations(case["seed"] + 1)  # every launch must read X anew
    launch.output.fill_(torch.nan)
    launch()
    (truth,) = inputs.reference()
    result = {"failure": measure(launch.output, truth).failure(inputs.scheme), "kernels": list(launch.kernels)}
    if inputs.scheme.prequant:
        result["snr_of_rounded_db"] = measure(launch.output, prequantized_product(inputs)).snr_db
    return result


def run_dequantize(case):
    inputs = operands(case)
    out = torch.full(inputs.q.shape, torch.nan, dtype=inputs.dtype)
    compile_calls([dequantize_call(inputs, out)]).run()
    return {"differing": int((out != inputs.dequantized()).sum())}


if __name__ == "__main__":
    interpreter_repairs.repair()
    handlers = {"gemm": run_gemm, "dequantize": run_dequantize}
    print(json.dumps([handlers[case["step"]](case) for case in json.load(sys.stdin)]))
