"""Run launches of the torchao family in Triton's interpreter. Started with TRITON_INTERPRET=1; JSON in, JSON out."""

import json
import sys

import interpreter_repairs
import torch
from rooflens.kernels.inputs import make_inputs, poison
from rooflens.kernels.jit.call import compile_calls
from rooflens.kernels.reference import measure_all
from rooflens.kernels.torchao import triton_providers
from rooflens.kernels.torchao.quantize import quantized_layout
from rooflens.kernels.torchao.triton_dequantize import dequantize_calls
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.torchao import SCHEMES

PROVIDERS = {
    provider.name: provider
    for provider in (
        triton_providers.QUANTIZE,
        triton_providers.GEMM,
        triton_providers.GROUPED,
        triton_providers.LOOP,
        triton_providers.STOCK_TRITON,
    )
}


def operands(case):
    """Operands on the CPU, in the FP8 type of the case's architecture."""
    device = Device("cpu", 0, "cpu", "", case.get("arch", "x86-64"), 2, 1 << 20, 1 << 20, 1 << 30)
    dtype = DType(case.get("dtype", "bf16"))
    scheme = next(scheme for kind in SCHEMES if (scheme := kind.read(case["scheme"], dtype)))
    problem = Problem(
        case["M"],
        case.get("N", 1),
        case["K"],
        op=Op(case["op"]),
        pass_=Pass(case.get("pass", "fwd")),
        E=case.get("E", 1),
    )
    scheme.check(problem)
    return make_inputs(problem, scheme, device, case.get("seed", 1))


def run_launch(case):
    inputs = operands(case)
    launch = PROVIDERS[case["provider"]].prepare(inputs, case["config"])
    found = []
    for step in range(2):  # every launch must read its activations anew, and write everything
        inputs.refresh_activations(case.get("seed", 1) + step)
        if "scale_x" in case:  # groups of zeros and of tiny values
            inputs.x.view(-1, inputs.x.shape[1])[: inputs.x.shape[0] // 2].mul_(case["scale_x"])
        for output in launch.outputs:
            poison(output)
        launch()
        found = measure_all(launch.outputs, inputs.reference())
    result = {"failures": [one.failure(inputs.scheme) for one in found], "snr_db": [one.snr_db for one in found]}
    result |= {"kernels": list(launch.kernels), "dtype": str(launch.outputs[0].dtype)}
    if case["op"] == "quantize":
        expected = quantized_layout(inputs.x, inputs.scheme.kind, inputs.fp8)
        result["differing"] = [
            int((bits(one) != bits(truth)).sum()) for one, truth in zip(launch.outputs, expected, strict=True)
        ]
    return result


def bits(tensor):
    return tensor.contiguous().view(torch.uint8 if tensor.element_size() == 1 else torch.int32)


def run_dequantize(case):
    """Dense operands of the fused dequantizer against those that the inputs hold."""
    inputs = operands(case)
    calls, activations, weight = dequantize_calls(inputs)
    compile_calls(calls).run()
    expected = inputs.dense if hasattr(inputs, "dense") else (inputs.a_dense,)
    from rooflens.kernels.torchao.blas import dense_weight

    pairs = [*zip(activations, expected, strict=True), (weight, dense_weight(inputs))]
    return {"differing": [int((one != truth).sum()) for one, truth in pairs]}


if __name__ == "__main__":
    interpreter_repairs.repair()
    handlers = {"launch": run_launch, "dequantize": run_dequantize}
    print(json.dumps([handlers[case.pop("step", "launch")](case) for case in json.load(sys.stdin)]))
