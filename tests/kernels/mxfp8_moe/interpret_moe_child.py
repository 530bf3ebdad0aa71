"""Run the MoE kernels in Triton's interpreter. Started with TRITON_INTERPRET=1; cases come and results go as JSON."""

import json
import sys
from dataclasses import replace

import interpreter_repairs
import torch
from devices import CPU
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.jit.call import compile_calls
from rooflens.kernels.mxfp8_moe.providers import moe_call
from rooflens.kernels.mxfp8_moe.routing import align, empty_aligned
from rooflens.kernels.mxfp8_moe.triton import gemv, grouped, stock
from rooflens.kernels.mxfp8_moe.triton.align import align_calls
from rooflens.kernels.mxfp8_moe.triton.dequantize import dequantize_call
from rooflens.kernels.mxfp8_moe.triton_configs import Traits
from rooflens.kernels.reference import measure
from rooflens.shapes.problem import Op, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8_moe import MxFp8Moe

KERNELS = {
    "grouped": grouped.grouped_moe_kernel,
    "gemv": gemv.gemv_moe_kernel,
    "stock": stock.stock_moe_kernel,
}


def dense_product(inputs):
    """Y in fp64, written out here slot by slot from the definition of the format."""
    values = inputs.x.double().unflatten(-1, (-1, 32)) * torch.exp2(inputs.x_scale.double() - 127)[..., None]
    x = values.flatten(-2)
    values = inputs.w.double().unflatten(-1, (-1, 32)) * torch.exp2(inputs.w_scale.double() - 127)[..., None]
    w = values.flatten(-2)
    rows = []
    for slot, expert in enumerate(inputs.topk_ids.reshape(-1).tolist()):
        row = w[expert] @ x[slot // inputs.problem.top_k]
        rows.append(row * inputs.topk_weights.reshape(-1)[slot].double() if inputs.scheme.weighted else row)
    return torch.stack(rows)


def run_gemm(case):
    problem = Problem(case["M"], case["N"], case["K"], op=Op.MOE_GEMM, E=case["E"], top_k=case["top_k"])
    scheme = MxFp8Moe("rceil", DType.BF16, case.get("weighted", False))
    inputs = make_inputs(problem, scheme, CPU, case.get("seed", 1))
    if case.get("all_to") is not None:
        inputs = replace(inputs, topk_ids=torch.full_like(inputs.topk_ids, case["all_to"]))
    if case.get("extreme"):  # the smallest and largest scales whose products are normal numbers
        inputs.w_scale[:, ::2] = 20
        inputs.x_scale[:] = 230
    absent = case.get("absent", [])
    expert_map = torch.arange(problem.E, dtype=torch.int32)
    expert_map[absent] = -1
    config = case["config"]
    aligned = align(inputs.topk_ids, config["BLOCK_M"], problem.E, expert_map)
    output = inputs.empty_output()
    chosen = Traits(**case["traits"])
    launch = compile_calls([moe_call(KERNELS[case["kernel"]], inputs, aligned, output, config, case["wide"], chosen)])
    for seed in range(case.get("launches", 1)):  # every launch must read X anew, and find its counters at zero again
        if not case.get("extreme"):
            inputs.refresh_activations(seed)
        output.fill_(torch.nan)
        launch.run()
    reference = dense_product(inputs)
    reference[torch.isin(inputs.topk_ids.reshape(-1), torch.tensor(absent, dtype=torch.int32))] = 0
    accuracy = measure(output, reference)
    return {"snr_db": accuracy.snr_db, "failure": accuracy.failure(scheme), "kernel": launch.kernels[0]}


def run_align(case):
    topk_ids = torch.tensor(case["topk_ids"], dtype=torch.int32)
    expert_map = torch.tensor(case["expert_map"], dtype=torch.int32) if case.get("expert_map") else None
    aligned = empty_aligned(topk_ids.numel(), case["block"], case["experts"], "cpu")
    launches = compile_calls(align_calls(topk_ids, aligned, case["experts"], expert_map))
    for _ in range(2):
        for tensor in (aligned.sorted_ids, aligned.expert_ids, aligned.padded):
            tensor.fill_(-7)
        launches.run()
    return {
        "sorted_ids": aligned.sorted_ids.tolist(),
        "expert_ids": aligned.expert_ids.tolist(),
        "padded": aligned.padded.tolist(),
    }


def run_dequantize(case):
    """Every payload byte that is a number, times two scales."""
    payload = torch.arange(256, dtype=torch.uint8).repeat(2)
    payload[payload & 127 == 127] = 0
    payload = payload.view(torch.float8_e4m3fn)
    scales = torch.tensor([127] * 8 + [0, 1, 100, 119, 130, 131, 132, 133], dtype=torch.uint8)
    out = torch.full((512,), torch.nan, dtype=torch.bfloat16)
    compile_calls([dequantize_call(payload, scales, out, case["arch"])]).run()
    exact = payload.double().unflatten(0, (-1, 32)) * torch.exp2(scales.double() - 127)[:, None]
    return {"equal": torch.equal(out, exact.flatten().bfloat16())}


if __name__ == "__main__":
    interpreter_repairs.repair()
    handlers = {"gemm": run_gemm, "align": run_align, "dequantize": run_dequantize}
    print(json.dumps([handlers[case["step"]](case) for case in json.load(sys.stdin)]))
