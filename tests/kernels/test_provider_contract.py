"""What every shipped provider promises, whatever it is made of.

A provider that does not support the CPU is checked here for its reasons only; the same promises are tested on a GPU
where there is one, and those of the Triton kernels in Triton's interpreter elsewhere.
"""

import json
from collections.abc import Iterator

import pytest
import torch
from rooflens.harness.device import find_device
from rooflens.kernels import registry
from rooflens.kernels.fourbit.inputs import FourBitInputs
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.provider import Provider, Role, Support
from rooflens.kernels.reference import measure
from rooflens.kernels.source_hash import source_hash
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType, Scheme

CPU = find_device("cpu")
NVIDIA = Device("cuda", 0, "NVIDIA H200", "NVIDIA", "sm90", 132, 1 << 26, 1 << 26, 1 << 37)
AMD = Device("cuda", 0, "AMD Instinct MI300X", "AMD", "gfx942", 304, 1 << 28, 1 << 22, 1 << 37)

SCHEMES = ("nf4-g64", "fp4-g32", "nf4-g128-nested", "nf4-g64-bias", "fp4-g256-nested-bias")
PROBLEMS = (
    Problem(1, 64, 256),
    Problem(5, 96, 512),  # M no power of two
    Problem(33, 128, 256),
    Problem(2, 33, 256),  # N odd
    Problem(3, 32, 80),  # blocks straddle rows
    Problem(2, 7, 45),  # N*K odd
)
ON_EVERY_MACHINE = ("blas", "dequant_blas")


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """The portable fallbacks of bitsandbytes compile on first use, for seconds; eager they compute the same."""
    with torch.compiler.set_stance("force_eager"):
        yield


@pytest.fixture(params=registry.BUILTIN)
def provider(request: pytest.FixtureRequest) -> Provider:
    name: str = request.param
    return registry.load([name])[name]


def supported(
    provider: Provider, dtype: DType, device: Device, schemes: tuple[str, ...] = SCHEMES
) -> Iterator[FourBitInputs]:
    for name in schemes:
        scheme = Scheme.parse(name, dtype)
        for problem in PROBLEMS:
            if provider.supports(problem, scheme, device).ok:
                yield make_inputs(problem, scheme, device, seed=11)


def failure(launch_output: torch.Tensor, inputs: FourBitInputs) -> str:
    return measure(launch_output, inputs.reference()[0]).failure(inputs.scheme)


def test_name_and_role(provider: Provider) -> None:
    assert registry.BUILTIN[provider.name]
    assert provider.role in Role


def test_names_are_unique() -> None:
    names = [provider.name for provider in registry.load(registry.BUILTIN).values()]
    assert names == list(registry.BUILTIN)


def test_each_baseline_role_is_filled() -> None:
    roles = {name: provider.role for name, provider in registry.load(registry.BUILTIN).items()}
    assert roles["dequant_blas"] is Role.DEQUANT_BLAS
    assert roles["blas"] is Role.BLAS
    assert roles["stock_triton"] is Role.STOCK_TRITON
    assert {role for name, role in roles.items() if name.startswith("bitsandbytes")} == {Role.UPSTREAM}
    assert [name for name, role in roles.items() if role is Role.DEQUANT_BLAS] == ["dequant_blas"]


@pytest.mark.parametrize("device", (CPU, NVIDIA, AMD), ids=lambda device: device.name)
def test_support_is_an_answer_with_a_reason(provider: Provider, device: Device) -> None:
    for scheme in SCHEMES:
        for dtype in DType:
            for problem in PROBLEMS:
                support = provider.supports(problem, Scheme.parse(scheme, dtype), device)
                assert isinstance(support, Support)
                assert support.ok != bool(support.reason), support
                assert "\n" not in support.reason


def test_candidates_are_plain_json_without_a_device(provider: Provider) -> None:
    for device in (CPU, NVIDIA, AMD):
        for problem in PROBLEMS:
            scheme = Scheme.parse("nf4-g64", DType.BF16)
            if provider.supports(problem, scheme, device).ok:
                configs = [dict(config) for config in provider.candidates(problem, scheme, device)]
                assert json.loads(json.dumps(configs)) == configs


def test_source_hash(provider: Provider) -> None:
    assert int(source_hash(provider), 16) >= 0
    assert source_hash(provider) == source_hash(provider)


def check_outputs(provider: Provider, dtype: DType, device: Device) -> int:
    """Right, complete, from the activations of now, with operands left alone; returns how many problems it could."""
    number = 0
    for number, inputs in enumerate(supported(provider, dtype, device), start=1):
        where = f"{provider.name} {inputs.scheme.name} {inputs.problem}"
        before = [inputs.x.clone(), inputs.packed.clone(), inputs.absmax.clone()]
        launch = provider.prepare(inputs)
        launch.output.fill_(torch.nan)
        launch()
        assert launch.output.shape == (inputs.problem.M, inputs.problem.N), where
        assert launch.output.dtype == inputs.dtype, where
        assert not failure(launch.output, inputs), f"{where}: {failure(launch.output, inputs)}"
        for operand, kept in zip((inputs.x, inputs.packed, inputs.absmax), before, strict=True):
            assert torch.equal(operand, kept), f"{where}: prepare or launch changed an operand"

        inputs.refresh_activations(number)
        launch.output.fill_(torch.nan)
        for _ in range(2):  # a launch that accumulates is right once only
            launch()
        assert not failure(launch.output, inputs), f"{where} with fresh activations: {failure(launch.output, inputs)}"

        config = dict(launch.config)
        assert json.loads(json.dumps(config)) == config, where
        assert all(isinstance(kernel, str) for kernel in launch.kernels), where
        moved = provider.moved_bytes(inputs.problem, inputs.scheme, config)
        operands = inputs.scheme.compulsory_bytes(inputs.problem) - inputs.scheme.scale_bytes(inputs.problem)
        assert moved is None or moved >= operands, where  # scales are not read where W is dense already
    return number


def skip_unsupported(provider: Provider, dtype: DType, device: Device) -> None:
    pytest.skip(provider.supports(PROBLEMS[0], Scheme.parse(SCHEMES[0], dtype), device).reason)


@pytest.mark.parametrize("dtype", list(DType))
def test_outputs_on_the_cpu(provider: Provider, dtype: DType) -> None:
    checked = check_outputs(provider, dtype, CPU)
    if provider.name in ON_EVERY_MACHINE:
        assert checked == len(PROBLEMS) * len(SCHEMES)
    elif not checked:
        skip_unsupported(provider, dtype, CPU)


def check_candidates(provider: Provider, device: Device) -> None:
    for inputs in supported(provider, DType.BF16, device, ("nf4-g64",)):
        for config in provider.candidates(inputs.problem, inputs.scheme, device):
            launch = provider.prepare(inputs, config)
            launch()
            assert not failure(launch.output, inputs), f"{inputs.problem} {dict(config)}"
            assert dict(config).items() <= dict(launch.config).items(), "the config that ran is another one"


def test_every_candidate_is_right_on_the_cpu(provider: Provider) -> None:
    check_candidates(provider, CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(DType))
def test_outputs_on_the_gpu(provider: Provider, dtype: DType) -> None:
    device = find_device("cuda")
    if not check_outputs(provider, dtype, device):
        skip_unsupported(provider, dtype, device)


@pytest.mark.gpu
def test_every_candidate_is_right_on_the_gpu(provider: Provider) -> None:
    check_candidates(provider, find_device("cuda"))
