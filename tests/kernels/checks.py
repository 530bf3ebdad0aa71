"""What every launch of a provider is held to, whatever it computes."""

import torch
from rooflens.kernels.inputs import Inputs, make_inputs, poison
from rooflens.kernels.provider import AnyProvider, Config, Launch, support
from rooflens.kernels.reference import measure_all
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import Scheme


def results(launch: Launch) -> list[torch.Tensor]:
    """Copies of all results of a call, whose elements that are never written are poison."""
    for output in launch.outputs:
        poison(output)
    launch()
    return [output.clone() for output in launch.outputs]


def octets(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


def check_launch(
    provider: AnyProvider,
    inputs: Inputs,
    config: Config | None,
    times: int = 2,
    least_db: float = 0.0,
    again: bool = True,
) -> Launch:
    """Right and complete from the activations of now, the same twice, in the configuration asked for, with weights
    left alone. `least_db`: where the SNR is better than the scheme asks for. `again`: launch twice, for the same.
    """
    where = f"{provider.name} {inputs.scheme.name} {inputs.problem} {config}"
    kept = [octets(tensor).clone() for tensor in inputs.weights]
    launch = provider.prepare(inputs, config)
    assert dict(config or {}).items() <= dict(launch.config).items(), f"{where}: the config that ran is another one"
    for seed in range(1, times + 1):
        inputs.refresh_activations(seed)
        first = results(launch)
        found = measure_all(first, inputs.reference())
        failures = [one.failure(inputs.scheme) for one in found]
        assert not any(failures), f"{where}: {failures}"
        assert min(one.snr_db for one in found) >= least_db, f"{where}: {found}"
        second = results(launch) if again else first
        assert all(torch.equal(octets(a), octets(b)) for a, b in zip(first, second, strict=True)), f"{where}: differs"
    for tensor, before in zip(inputs.weights, kept, strict=True):
        assert torch.equal(octets(tensor), before), f"{where}: changed an operand"
    return launch


def check_candidates(
    provider: AnyProvider, problem: Problem, scheme: Scheme, device: Device, seed: int = 3
) -> list[Launch]:
    """Check every candidate; none where the provider does not take the problem."""
    if not support(provider, problem, scheme, device).ok:
        return []
    inputs = make_inputs(problem, scheme, device, seed)
    configs = provider.candidates(problem, scheme, device) or (None,)
    return [check_launch(provider, inputs, config) for config in configs]
