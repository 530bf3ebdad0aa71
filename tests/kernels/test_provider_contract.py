"""What every shipped provider promises, whatever it is made of.

A provider that does not support the CPU is checked here for its reasons only; the same promises are tested on a GPU
where there is one, and those of the Triton kernels in Triton's interpreter elsewhere.
"""

import json

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.kernels import registry
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.jit.provider import TritonProvider
from rooflens.kernels.provider import AnyProvider, Config, Role, Support, support
from rooflens.kernels.reference import measure_all
from rooflens.kernels.source_hash import source_hash
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Op, Problem
from rooflens.shapes.scheme import DType, Scheme

from .checks import check_candidates, check_launch, results
from .contract_cases import CASES, CONFIGURED, LARGER, LARGER_DEFAULTS, Cases, schemes
from .devices import H200, MI300X, gpu

pytestmark = pytest.mark.usefixtures("eager")

CPU = find_device("cpu")
DEVICES = (CPU, H200, MI300X, *map(gpu, ("sm80", "sm100", "gfx90a", "gfx950", "gfx1100", "gfx1201")))

ON_EVERY_MACHINE = {
    "fourbit": ("blas", "dequant_blas"),
    "fp8train": ("blas_bf16_fp8", "dequant_blas_fp8", "torch_quant_fp8"),
    "torchao": ("blas_bf16_ao", "dequant_blas_ao", "dequant_loop_ao", "loop_bf16_ao", "torch_quant_ao"),
    "mxfp8": ("blas_bf16_mx", "dequant_blas_mx", "torch_quant_mx"),
    "mxfp8_moe": ("dequant_loop_moe", "loop_bf16_moe"),
    "a16w8": ("dequant_bmm_a16w8", "bmm_bf16_a16w8"),
}
"""Providers of each family that run on a CPU as well, so that its suites run everywhere."""


Asked = list[tuple[Problem, Scheme]]


def supported(provider: AnyProvider, dtype: DType, device: Device, cases: Cases = CASES) -> Asked:
    return [
        (problem, scheme)
        for scheme, problems in schemes(provider.family, dtype, cases)
        for problem in problems
        if support(provider, problem, scheme, device).ok
    ]


def sample(provider: AnyProvider, dtype: DType, device: Device) -> Asked:
    """Each scheme and pass once, by turns with its largest weight and with the most rows.

    Of CASES, or of LARGER where none of those is supported.
    """
    asked = supported(provider, dtype, device) or supported(provider, dtype, device, LARGER)
    names = list(dict.fromkeys(scheme.name for _, scheme in asked))
    asked.sort(key=lambda one: one[0].M if names.index(one[1].name) % 2 else one[0].N * one[0].K)
    return list({(scheme.name, problem.pass_): (problem, scheme) for problem, scheme in asked}.values())


def test_names_are_unique() -> None:
    names = [provider.name for provider in registry.load(registry.BUILTIN).values()]
    assert names == list(registry.BUILTIN)


@pytest.mark.parametrize("family", CASES)
def test_each_baseline_role_of_a_family_is_filled(family: str) -> None:
    roles = {one.name: one.role for one in registry.load(registry.BUILTIN).values() if one.family == family}
    assert {Role.DEQUANT_BLAS, Role.REFERENCE, Role.CANDIDATE} <= set(roles.values())


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.name)
def test_support_is_an_answer_with_a_reason(provider: AnyProvider, device: Device) -> None:
    for family in CASES:
        for dtype in DType:
            for scheme, problems in schemes(family, dtype):
                for problem in problems:
                    answer = support(provider, problem, scheme, device)
                    assert isinstance(answer, Support)
                    assert answer.ok != bool(answer.reason), answer
                    assert "\n" not in answer.reason
                    assert not answer.ok or provider.family == family


def test_a_case_reaches_every_provider(provider: AnyProvider) -> None:
    """Otherwise what is checked here says nothing of it; a library that this machine lacks excuses it."""
    answers = [
        support(provider, problem, scheme, device)
        for cases in (CASES, LARGER)
        for dtype in DType
        for scheme, problems in schemes(provider.family, dtype, cases)
        for problem in problems
        for device in DEVICES
    ]
    reasons = {answer.reason for answer in answers}
    lacking = any("not installed" in reason or "this torch has none" in reason for reason in reasons)
    assert lacking or any(answer.ok for answer in answers), reasons


def test_a_provider_has_one_operation(provider: AnyProvider) -> None:
    """GEMMs, grouped ones and quantizers of a family decline each other's problems."""
    asked = ((problem, scheme) for scheme, some in schemes(provider.family, DType.BF16) for problem in some)
    assert len({problem.op for problem, scheme in asked if support(provider, problem, scheme, H200).ok}) <= 1


@pytest.mark.parametrize("cases", [CASES, LARGER, CONFIGURED], ids=["small", "larger", "configured"])
def test_candidates_are_plain_json_without_a_device_and_none_twice(provider: AnyProvider, cases: Cases) -> None:
    """Sizes of tiles are powers of two, and no part of K is empty."""
    for device in DEVICES:
        for scheme, problems in schemes(provider.family, DType.BF16, cases):
            for problem in problems:
                if support(provider, problem, scheme, device).ok:
                    configs = [dict(config) for config in provider.candidates(problem, scheme, device)]
                    assert json.loads(json.dumps(configs)) == configs
                    assert len({json.dumps(config, sort_keys=True) for config in configs}) == len(configs)
                    for config in configs:
                        check_tile(config, problem, any_split=provider.family == "mxfp8")


def check_tile(config: Config, problem: Problem, any_split: bool) -> None:
    """`any_split`: parts of K may be any number, and the last one ends within a tile."""
    powers = ("BLOCK_", "num_warps") if any_split else ("BLOCK_", "num_warps", "SPLIT_K")
    sizes = [size for name, size in config.items() if name.startswith(powers)]
    assert all(size > 0 and size & (size - 1) == 0 for size in sizes), config
    tiles = (problem.K + any_split * (config.get("BLOCK_K", 1) - 1)) // config.get("BLOCK_K", 1)
    assert config.get("SPLIT_K", 1) <= max(1, tiles), config


def test_source_hash(provider: AnyProvider) -> None:
    assert int(source_hash(provider), 16) >= 0
    assert source_hash(provider) == source_hash(provider)


def check_outputs(provider: AnyProvider, asked: Asked, device: Device) -> None:
    """Right as every launch, in the layout that is asked for, of negated activations too; and what is stated of it."""
    for problem, scheme in asked:
        inputs = make_inputs(problem, scheme, device, seed=11)
        where = f"{provider.name} {scheme.name} {problem}"
        launch = check_launch(provider, inputs, None)
        for output, expected in zip(launch.outputs, inputs.empty_outputs(), strict=True):
            wanted = expected.shape, expected.dtype, expected.stride()
            assert (output.shape, output.dtype, output.stride()) == wanted, where
        truth = inputs.reference()
        inputs.negate()
        inputs.negate_reference(truth)
        wrong = [one.failure(scheme) for one in measure_all(results(launch), truth)]
        assert not any(wrong), f"{where} of the negated activations: {wrong}"

        config = dict(launch.config)
        assert json.loads(json.dumps(config)) == config, where
        assert all(isinstance(kernel, str) for kernel in launch.kernels), where
        assert isinstance(provider.math_dtype(problem, scheme, device), str)
        moved = provider.moved_bytes(problem, scheme, config)
        operands = scheme.compulsory_bytes(problem) - scheme.scale_bytes(problem)
        assert moved is None or moved >= operands, where  # scales are not read where W is dense already


def skip_unsupported(provider: AnyProvider, device: Device, dtype: DType) -> None:
    reasons = [
        support(provider, problem, scheme, device).reason
        for scheme, problems in schemes(provider.family, dtype)
        for problem in problems
    ]
    pytest.skip(reasons[0] if reasons else f"{provider.family} has no {dtype}")


@pytest.mark.parametrize("dtype", list(DType))
def test_outputs_on_the_cpu(provider: AnyProvider, dtype: DType) -> None:
    asked = supported(provider, dtype, CPU)
    check_outputs(provider, asked, CPU)
    if provider.name in ("blas", "dequant_blas"):
        assert len(asked) == sum(len(problems) for _, problems in schemes("fourbit", dtype))
    elif provider.name in ON_EVERY_MACHINE[provider.family] and dtype is DType.BF16:
        assert asked
    elif not asked:
        skip_unsupported(provider, CPU, dtype)


@pytest.mark.parametrize("family", CASES)
def test_every_problem_of_a_family_can_be_computed_on_a_cpu(family: str) -> None:
    """A product by both baselines, a quantization by the plain quantizer."""
    able = registry.load(ON_EVERY_MACHINE[family]).values()
    for scheme, problems in schemes(family, DType.BF16):
        for problem in problems:
            roles = {one.role for one in able if support(one, problem, scheme, CPU).ok}
            wanted = {Role.CANDIDATE} if problem.op is Op.QUANTIZE else {Role.REFERENCE, Role.DEQUANT_BLAS}
            assert roles >= wanted, f"{scheme.name} {problem}"


def check_every_candidate(provider: AnyProvider, asked: Asked, device: Device) -> None:
    """A Triton kernel of the 4-bit family allocates nothing when it is launched."""
    for problem, scheme in asked:
        for launch in check_candidates(provider, problem, scheme, device, seed=11):
            assert launch.artifact or not launch.config.get("K_MAJOR")
            if provider.family == "fourbit" and isinstance(provider, TritonProvider):
                torch.cuda.synchronize()
                before = torch.cuda.memory_stats()["allocation.all.allocated"]
                launch()
                assert torch.cuda.memory_stats()["allocation.all.allocated"] == before, "a launch must not allocate"
                assert launch.artifact
                assert len(launch.kernels) == 1


def test_every_candidate_is_right_on_the_cpu(provider: AnyProvider) -> None:
    check_every_candidate(provider, supported(provider, DType.BF16, CPU), CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(DType))
def test_outputs_on_the_gpu(provider: AnyProvider, dtype: DType) -> None:
    device = find_device("cuda")
    asked = sample(provider, dtype, device)
    check_outputs(provider, asked, device)
    if not asked:
        skip_unsupported(provider, device, dtype)


@pytest.mark.gpu
def test_every_candidate_is_right_on_the_gpu(provider: AnyProvider) -> None:
    """Of the problem and scheme that have the most."""
    device = find_device("cuda")
    asked = sample(provider, DType.BF16, device)
    asked.sort(key=lambda one: len(provider.candidates(*one, device)))
    check_every_candidate(provider, asked[-1:], device)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("dtype", list(DType))
def test_all_problems_on_the_gpu(provider: AnyProvider, dtype: DType) -> None:
    device = find_device("cuda")
    for cases in (CASES, LARGER_DEFAULTS):
        check_outputs(provider, supported(provider, dtype, device, cases), device)
    for cases in (CASES, LARGER):
        check_every_candidate(provider, supported(provider, dtype, device, cases), device)
