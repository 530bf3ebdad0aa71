"""What every launch of a provider is held to, whatever it computes; FP8 E4M3 by its definition."""

import math
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from rooflens.kernels.inputs import Inputs, make_inputs, poison
from rooflens.kernels.libraries.blas_lt import LT
from rooflens.kernels.provider import AnyProvider, Config, DeclinedError, Launch, support
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


def bits(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copies of all bits."""
    return [octets(tensor).clone() for tensor in tensors]


def same(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(map(torch.equal, first, second))


def check_launch(
    provider: AnyProvider,
    inputs: Inputs,
    config: Config | None,
    times: int = 2,
    least_db: float = 0.0,
    again: bool = True,
) -> Launch:
    """Right and complete from the activations of now, the same twice, in the configuration asked for, with operands
    left alone. `least_db`: where the SNR is better than the scheme asks for. `again`: launch twice, for the same.
    """
    where = f"{provider.name} {inputs.scheme.name} {inputs.problem} {config}"
    weights = bits(inputs.weights)
    launch = provider.prepare(inputs, config)
    assert dict(config or {}).items() <= dict(launch.config).items(), f"{where}: the config that ran is another one"
    for seed in range(1, times + 1):
        inputs.refresh_activations(seed)
        activations = bits(inputs.activations)
        first = results(launch)
        found = measure_all(first, inputs.reference())
        failures = [one.failure(inputs.scheme) for one in found]
        assert not any(failures), f"{where}: {failures}"
        assert min(one.snr_db for one in found) >= least_db, f"{where}: {found}"
        assert not again or same(bits(results(launch)), bits(first)), f"{where}: differs"
        assert same(bits(inputs.activations), activations), f"{where}: changed an activation"
    assert same(bits(inputs.weights), weights), f"{where}: changed a weight"
    return launch


def check_candidates(
    provider: AnyProvider, problem: Problem, scheme: Scheme, device: Device, seed: int = 3
) -> list[Launch]:
    """Check every candidate, but for algorithms that a library does not list; none of a problem without support."""
    if not support(provider, problem, scheme, device).ok:
        return []
    inputs = make_inputs(problem, scheme, device, seed)
    default, *others = provider.candidates(problem, scheme, device) or (None,)
    launches = [check_launch(provider, inputs, default)]
    listed = launches[0].config.get("algorithms", math.inf)
    for config in others:
        form = str(config["gemm"]) if config and listed < math.inf else ""
        is_unlisted = form.removeprefix(LT).isdecimal() and int(form.removeprefix(LT)) >= listed
        with pytest.raises(DeclinedError) if is_unlisted else nullcontext():
            launches.append(check_launch(provider, inputs, config))
    return launches


def e4m3(byte: int, dtype: torch.dtype = torch.float8_e4m3fn) -> float:
    """The value of a byte that is a number: sign, 4 bits of exponent, 3 of mantissa; fnuz has a bias of 8."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    bias = 8 if dtype is torch.float8_e4m3fnuz else 7
    size = mantissa / 8 * 2.0 ** (1 - bias) if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - bias)
    return -size if byte & 0x80 else size


def nearest_e4m3(values: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """The nearest value of the type to each number, ties to the even code; magnitudes saturate."""
    grid = np.array([e4m3(code, dtype) for code in range(0x80 if dtype is torch.float8_e4m3fnuz else 0x7F)])
    size = np.minimum(np.abs(values.astype(np.float64)), grid[-1])
    above = np.clip(np.searchsorted(grid, size), 1, len(grid) - 1)
    low, high = grid[above - 1], grid[above]
    up = (size - low > high - size) | ((size - low == high - size) & (above % 2 == 0))
    return np.copysign(np.where(up, high, low), values)
