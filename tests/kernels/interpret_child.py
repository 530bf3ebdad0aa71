"""Run fused kernels in Triton's interpreter. Started with TRITON_INTERPRET=1; cases come and results go as JSON."""

import json
import sys

import interpreter_repairs
import numpy as np
import torch
from devices import CPU
from rooflens.kernels.fourbit import triton_providers
from rooflens.kernels.fourbit.inputs import FourBitInputs
from rooflens.kernels.fourbit.triton import dequantize, gemv, mma, simt
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.jit.call import compile_calls, launch_calls
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

KERNELS = {
    "simt_4bit": simt.simt_4bit_kernel,
    "gemv_4bit": gemv.gemv_4bit_kernel,
    "gemv_4bit_opt": gemv.gemv_4bit_opt_kernel,
    "mma_4bit": mma.mma_4bit_kernel,
}


def dense_weight(inputs: FourBitInputs) -> np.ndarray:
    """W[N,K] in fp64, decoded here nibble by nibble from the definition of the format."""
    weight = inputs.weight
    packed = weight.packed.numpy()
    nibbles = np.stack([packed >> 4, packed & 15], axis=1).reshape(-1)[: weight.numel]
    absmax = weight.absmax.double().numpy()
    if weight.nested is not None:
        nested = weight.nested
        second = nested.scale.double().numpy()[np.arange(nested.q.numel()) // 256]
        absmax = nested.code.double().numpy()[nested.q.numpy()] * second + float(nested.offset)
    codes = inputs.code.double().numpy()[nibbles]
    if weight.groups is not None and weight.groups.zero is not None:
        zeros = weight.groups.zero.numpy()
        codes -= np.stack([zeros >> 4, zeros & 15], axis=1).reshape(-1)[np.arange(weight.numel) // weight.group] - 8.0
    values = codes * absmax[np.arange(weight.numel) // weight.group]
    return values.reshape(inputs.problem.N, inputs.problem.K)


def snr_db(out: torch.Tensor, reference: np.ndarray) -> float:
    error = reference - out.double().numpy()
    return float(10 * np.log10((reference**2).sum() / max((error**2).sum(), 1e-300)))


def run_gemm(case: dict) -> dict:
    problem = Problem(case["M"], case["N"], case["K"])
    inputs = make_inputs(problem, parse_scheme(case["scheme"], DType(case["dtype"])), CPU, case.get("seed", 1))
    if case["kernel"] == "stock_triton":
        launch = triton_providers.STOCK_TRITON.prepare(inputs, case["config"])
    else:
        out = inputs.empty_output()
        call = triton_providers.fused_call(KERNELS[case["kernel"]], inputs, out, case["config"], case["isa"])
        launch = launch_calls([call], (out,), case["config"])
    for seed in range(case.get("launches", 1)):  # every launch must read X anew, and find its counters at zero again
        inputs.refresh_activations(seed)
        launch.output.fill_(torch.nan)
        launch()
    reference = inputs.x.double().numpy() @ dense_weight(inputs).T
    if inputs.bias is not None:
        reference += inputs.bias.double().numpy()
    return {
        "finite": bool(launch.output.isfinite().all()),
        "snr_db": snr_db(launch.output, reference),
        "kernels": list(launch.kernels),
    }


def run_dequantize(case: dict) -> dict:
    problem = Problem(1, case["N"], case["K"])
    inputs = make_inputs(problem, parse_scheme(case["scheme"], DType(case["dtype"])), CPU, case.get("seed", 1))
    out = torch.full((problem.N, problem.K), torch.nan, dtype=inputs.dtype)
    compile_calls([dequantize.dequantize_call(inputs, out, case["isa"])]).run()
    reference = dense_weight(inputs)
    rounded = inputs.dequantized()
    return {
        "finite": bool(out.isfinite().all()),
        "snr_db": snr_db(out, reference),
        "differing": int((out != rounded).sum()),
    }


def run_permute(case: dict) -> dict:
    import triton_probes

    a, b, selector = (torch.tensor(case[name], dtype=torch.int64).to(torch.int32) for name in ("a", "b", "selector"))
    out = torch.empty_like(a)
    triton_probes.permute_kernel[(1,)](a, b, selector, out, BLOCK=a.numel(), ISA=case["isa"])
    return {"out": [value & 0xFFFFFFFF for value in out.tolist()]}


def run_decode(case: dict) -> dict:
    import triton_probes

    words = torch.tensor(case["words"], dtype=torch.int64).to(torch.int32)
    out = torch.empty(words.numel(), 8)
    planes = {f"P{p}": int(plane) for p, plane in enumerate(case["planes"])}
    triton_probes.decode_kernel[(1,)](words, out, **planes, BLOCK=words.numel(), ISA=case["isa"])
    return {"out": out.tolist()}


if __name__ == "__main__":
    interpreter_repairs.repair()
    handlers = {
        "gemm": run_gemm,
        "dequantize": run_dequantize,
        "permute": run_permute,
        "decode": run_decode,
    }
    print(json.dumps([handlers[case["step"]](case) for case in json.load(sys.stdin)]))
