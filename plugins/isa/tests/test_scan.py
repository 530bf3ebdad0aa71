"""What is compiled for a suite: each binary once, every pair of architecture and problem accounted for."""

import json
from dataclasses import replace

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.kernels import registry
from rooflens.kernels.aot import LARGE_BYTES
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.jit import call
from rooflens.kernels.jit.launch import CompiledLaunch
from rooflens.kernels.provider import Launch, Provider, Support
from rooflens.plugins.isa.compiled.scan import Asked, described_device, scan, specialization
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.verdict import Verdict

NF4 = parse_scheme("nf4-g64", DType.BF16)
FOURBIT = ("simt_4bit", "gemv_4bit", "gemv_4bit_opt", "mma_4bit", "stock_triton")
TYPES = {torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.int32: "*i32", torch.uint8: "*u8"}


def asked(name, *problems, scheme=NF4):
    provider = registry.load([name])[name]
    return [Asked(provider, problem, scheme) for problem in problems]


@pytest.mark.parametrize("arch", ["gfx950", "sm90"])
@pytest.mark.parametrize("name", FOURBIT)
def test_a_build_asks_for_what_a_launch_compiles(name, arch, monkeypatch):
    """Arguments, constants and options that `prepare` hands to Triton, for every form of the operands."""
    launched = {}

    def record(kernel, grid, arguments, constants, options):
        launched.update(kernel=kernel, arguments=arguments, constants=constants, options=options)
        return CompiledLaunch(lambda: None, "", "")

    monkeypatch.setattr(call, "compile_launch", record)
    provider, device = registry.load([name])[name], described_device(arch)
    for scheme_name, m, n, k in (
        ("nf4-g64", 1, 64, 256),
        ("nf4-g64-nested-bias", 16, 64, 256),
        ("fp4-g128", 3, 7, 45),
        ("nf4-g64", 200, 64, 90),
    ):
        problem, scheme = Problem(m, n, k), parse_scheme(scheme_name, DType.BF16)
        inputs = replace(make_inputs(problem, scheme, find_device("cpu"), seed=1), device=device)
        for config in provider.candidates(problem, scheme, device):
            provider.prepare(inputs, config)
            (request,) = provider.builds(problem, scheme, device, config)
            tensors = {key: TYPES[v.dtype] for key, v in launched["arguments"].items() if torch.is_tensor(v)}
            assert dict(request.arguments) == launched["arguments"] | tensors
            assert request.constants == launched["constants"]
            assert request.options == launched["options"]
            assert request.kernel.endswith(f":{launched['kernel'].fn.__name__}")
            assert request.large == ()


def test_a_binary_that_serves_many_problems_is_one_entry():
    """gemv_4bit is not specialized for sizes: all M of one K, and every K of the same alignment, share their code."""
    problems = [Problem(m, 4096, k) for k in (4096, 8192) for m in (1, 2, 3)]
    (entry,) = scan(asked("gemv_4bit", *problems), ["sm90"])
    assert entry.problems == 6
    assert entry.asked.problem == Problem(1, 4096, 4096)
    assert len(scan(asked("gemv_4bit", *problems, Problem(1, 4096, 4100)), ["sm90"])) == 2


def test_sizes_are_told_apart_where_the_compiler_tells_them_apart():
    """The plain GEMM is specialized: M = 1 is a constant, 17 is not a multiple of 16, 16 and 32 are."""
    entries = scan(asked("stock_triton", *(Problem(m, 4096, 4096) for m in (1, 16, 17, 32))), ["gfx942"])
    assert [entry.asked.problem.M for entry in entries] == [1, 16, 17]
    assert [entry.problems for entry in entries] == [1, 2, 1]
    told = [specialization(entry) for entry in entries]
    assert [one["M"] for one in told] == ["1", "i32:16", "i32"]
    assert told[0]["x"] == "*bf16:16:2GiB"
    assert told[0]["bias"] == "null"
    assert json.dumps(told)


def test_an_operand_of_two_gibibytes_is_another_binary_on_amd_only():
    problems = (Problem(64, 4096, 4096), Problem(64, 262144, 8192))
    assert problems[1].N * problems[1].K * 2 > LARGE_BYTES > problems[0].N * problems[0].K * 2
    small, large = scan(asked("stock_triton", *problems), ["gfx942"])
    assert specialization(small)["w"] == "*bf16:16:2GiB"
    assert specialization(large)["w"] == "*bf16:16"
    assert len(scan(asked("stock_triton", *problems), ["sm90"])) == 1


def test_default_configurations_only():
    entries = scan(asked("simt_4bit", Problem(1, 4096, 4096)), ["sm90"])
    assert [entry.default for entry in entries] == [True] + [False] * (len(entries) - 1)
    assert len(entries) > 1
    (only,) = scan(asked("simt_4bit", Problem(1, 4096, 4096)), ["sm90"], defaults_only=True)
    assert only.config == entries[0].config


class Picky(Provider):
    name = "picky"

    def prepare(self, inputs, config=None):
        return Launch(lambda: None, inputs.empty_output())

    def supports(self, problem, scheme, device):
        if device.vendor == "AMD" and problem.M > 8:
            return Support.no("M is limited to 8")
        return Support.yes()

    def builds(self, problem, scheme, device, config):
        if problem.M == 1:
            return ()
        raise ValueError("no such tile\nat all")


def test_what_is_not_compiled_is_an_entry_with_its_reason():
    problems = [Problem(m, 64, 64) for m in (1, 2, 4, 16, 32)]
    entries = scan([Asked(Picky(), problem, NF4) for problem in problems], ["gfx90a", "sm80"])
    assert [(one.arch, one.verdict, one.reason, one.problems) for one in entries] == [
        ("gfx90a", Verdict.UNSUPPORTED, "compiles no Triton kernel for this problem", 1),
        ("gfx90a", Verdict.RUNTIME_ERROR, "ValueError: no such tile", 2),
        ("gfx90a", Verdict.UNSUPPORTED, "M is limited to 8", 2),
        ("sm80", Verdict.UNSUPPORTED, "compiles no Triton kernel for this problem", 1),
        ("sm80", Verdict.RUNTIME_ERROR, "ValueError: no such tile", 4),
    ]
    assert sum(one.problems for one in entries) == 2 * len(problems)


@pytest.mark.parametrize(
    "arch, units",
    [("gfx942", 304), ("gfx950", 256), ("sm90", 132), ("gfx1100", 48), ("gfx1151", 20), ("gfx1201", 32)],
)
def test_a_device_that_is_not_here_has_the_units_that_torch_counts_on_it(arch, units):
    """HIP's multiProcessorCount: of RDNA it counts pairs of the 96, 40 and 64 CUs."""
    device = described_device(arch)
    assert (device.arch, device.compute_units, device.kind) == (arch, units, "cuda")
    assert device.is_rocm == arch.startswith("gfx")
