"""Operands of the torchao family, drawn and quantized on the device, and their exact results.

A dense problem is a grouped one with a single group, so that both share all of this.
"""

from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.torchao import BLOCK, AoGemm, AoGrouped, AoGroupedLinear, AoLinear, AoQuant, Torchao
from ..draw import draw
from ..fp8 import e4m3
from ..inputs import TORCH_DTYPES, Inputs
from .groups import group_ends
from .linear_inputs import LinearInputs
from .product_inputs import ProductInputs
from .quant_inputs import QuantInputs
from .quantize import quantize


def make_weight(problem: Problem, scheme: Torchao, device: Device, seed: int) -> Any:
    """Draw the weights of all experts (`draw`, in the groups that share a scale); quantize them where the scheme does.

    fp8 [E,N,K] with fp32 scales [E,cd(N,128),cd(K,128)] (128x128) or [E,cd(K,128),N] (128x1), the scheme's dtype
    [E,N,K] of a linear, None of a quantizer.
    """
    if isinstance(scheme, AoQuant):
        return None
    generator = torch.Generator(device.torch_name).manual_seed(seed)
    dtype = TORCH_DTYPES[scheme.dtype]
    shape = (problem.E, problem.N, problem.K)
    if isinstance(scheme, AoLinear | AoGroupedLinear):
        weight = torch.empty(shape, dtype=dtype, device=device.torch_name)
        for expert in weight:
            draw(expert, generator, BLOCK, BLOCK)
        return weight
    by_column = isinstance(scheme, AoGemm) and scheme.right == "128x1"
    data = torch.empty(shape, dtype=e4m3(device), device=device.torch_name)
    scales = []
    rows = 1 if by_column else BLOCK  # b is W transposed: its 128x1 groups lie along the rows of W
    for expert in data:
        dense = draw(torch.empty(shape[1:], dtype=dtype, device=device.torch_name), generator, rows, BLOCK)
        quantized = quantize(dense, rows, BLOCK, data.dtype)
        expert.copy_(quantized.data)
        scales.append(quantized.scale.t() if by_column else quantized.scale)
    return data, torch.stack(scales).contiguous()


def make_inputs(problem: Problem, scheme: Torchao, device: Device, seed: int, weight: Any = None) -> Inputs:
    """Make the operands of one problem. `weight` reuses what `make_weight` returned for the same shape and seed."""
    weight = weight if weight is not None else make_weight(problem, scheme, device, seed)
    ends = group_ends(problem, scheme, seed)
    offs = torch.tensor(ends, dtype=torch.int32, device=device.torch_name)
    inputs: QuantInputs | LinearInputs | ProductInputs
    if isinstance(scheme, AoQuant):
        inputs = QuantInputs.empty(problem, scheme, device, seed)
    elif isinstance(scheme, AoLinear | AoGroupedLinear):
        inputs = LinearInputs.empty(problem, scheme, device, seed, weight, offs, ends)
    else:
        assert isinstance(scheme, AoGemm | AoGrouped)
        inputs = ProductInputs.empty(problem, scheme, device, seed, weight, offs, ends)
    inputs.refresh_activations(seed + problem.M)
    return inputs
