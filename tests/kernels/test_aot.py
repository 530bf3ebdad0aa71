"""The ahead-of-time compiler: what it tells Triton is what the JIT would, and a child's death is a verdict."""

from pathlib import Path

import pytest
import torch
from rooflens.kernels import aot
from rooflens.kernels.fourbit.triton.dequantize import dequantize_4bit_kernel
from rooflens.kernels.fourbit.triton.simt import simt_4bit_kernel
from rooflens.kernels.jit.tiled_gemm import tiled_gemm_kernel
from rooflens.plugins.isa.compiled.aot_compiler import AotCompiler
from rooflens.shapes.verdict import Verdict
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.jit import create_function_from_signature

HERE = Path(__file__).parent
TYPES = {torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.int32: "*i32", torch.uint8: "*u8"}


def as_jit(kernel, arguments, constants, target):
    """Signature and attributes that Triton's own binder derives from real arguments."""
    backend = make_backend(target)
    binder = create_function_from_signature(kernel.signature, kernel.params, backend)
    _, specialization, _ = binder(**arguments, **constants)
    names = [parameter.name for parameter in kernel.params]
    signature = {name: kind for name, (kind, _) in zip(names, specialization, strict=True)}
    attributes = {
        (i,): backend.parse_attr(value)
        for i, (kind, value) in enumerate(specialization)
        if kind != "constexpr" and isinstance(value, str)
    }
    return signature, {key: value for key, value in attributes.items() if value}


def constants_of(kernel):
    return {parameter.name: 7 for parameter in kernel.params if parameter.is_constexpr}


half, full = torch.empty(64, dtype=torch.bfloat16), torch.empty(64)
integers, octets = torch.empty(64, dtype=torch.int32), torch.empty(64, dtype=torch.uint8)
CALLS = {
    "dense, size 1, multiple of 16, neither": (
        tiled_gemm_kernel,
        {"x": half, "w": half, "bias": None, "y": half, "M": 1, "N": 4096, "K": 2050},
    ),
    "sizes that are not specialized": (
        simt_4bit_kernel,
        {
            "x": half, "packed": integers, "absmax": full, "q": octets, "nested_code": full, "nested_offset": full,
            "bias": half, "y": half, "partial": None, "counter": None, "M": 1, "N": 4096, "k_units": 32,
            "split_tiles": 16,
        },
    ),
    "64-bit size": (
        dequantize_4bit_kernel,
        {
            "packed": integers, "absmax": full, "q": None, "nested_code": None, "nested_offset": None, "out": half,
            "numel": 1 << 33,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", [GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)], ids=["cuda", "hip"])
@pytest.mark.parametrize("call", CALLS)
def test_specialization_is_that_of_the_jit(call, target):
    kernel, arguments = CALLS[call]
    constants = constants_of(kernel)
    described = {
        name: TYPES[value.dtype] if isinstance(value, torch.Tensor) else value for name, value in arguments.items()
    }
    signature, fixed, attributes = aot.specialize(kernel, described, constants, target.backend)
    expected_signature, expected_attributes = as_jit(kernel, arguments, constants, target)
    assert signature == expected_signature
    assert attributes == expected_attributes
    values = {**arguments, **constants}
    names = [parameter.name for parameter in kernel.params]
    assert fixed == {(i,): values[name] for i, name in enumerate(names) if signature[name] == "constexpr"}


@pytest.fixture
def probes(monkeypatch):
    monkeypatch.syspath_prepend(HERE)


def request(kernel, **constants):
    return aot.BuildRequest(f"triton_probes:{kernel}", {"out": "*fp32", "n": 16}, constants)


def test_a_child_that_aborts_costs_one_request(probes, tmp_path):
    requests = [request("loop_kernel"), request("aborting_kernel"), request("mistake_kernel"), request("loop_kernel")]
    with AotCompiler(tmp_path) as compiler:
        builds = [compiler.build("sm90", one) for one in requests]
    assert [build.verdict for build in builds] == [
        Verdict.PASSED,
        Verdict.CRASHED,
        Verdict.COMPILE_ERROR,
        Verdict.PASSED,
    ]
    assert "killed by SIGABRT" in builds[1].reason
    assert "power of 2" in builds[2].reason
    assert builds[0] == builds[3]
    assert builds[0].registers > 0
    assert ".target sm_90" in builds[0].assembly
    assert "EXIT" in builds[0].machine_code
