"""Random MX-FP8 operands whose scale bytes lie on both sides of 127, and some of whose blocks have the byte 0.

With normal values alone every byte lies near 120, where a kernel that takes bytes for signed numbers is right. A power
of two moves a byte and leaves the payload alone, so that scales are changed after quantization.
"""

import torch

from ...shapes.schemes.mxfp8 import BLOCK
from ..inputs import normal
from .quantize import quantize_mx

LARGEST_BYTE = 134
"""No scale is larger, in any draw: that is as far as the decode of every kernel of the family reaches."""

_RAISES = (6, 10)
"""What is added to the bytes of normal values (119 to 122), from and to (exclusive): 125 to 131 are the result."""

_CYCLE = 251
"""Blocks from one of zeros to the next: prime, so that they rarely stand below each other."""


def spread_scales_(payload: torch.Tensor, scales: torch.Tensor, generator: torch.Generator) -> None:
    """Change MX-FP8 of normal values in place: bytes move by 6 to 9, and two blocks of 251 get the byte 0.

    One of the two keeps its payload (all its values are below 2^-118), the other's becomes zero.
    payload  float8_e4m3fn [..., K], scales  uint8 [..., K/32], both contiguous
    """
    raises = torch.randint(*_RAISES, scales.shape, generator=generator, device=scales.device, dtype=torch.uint8)
    scales.add_(raises).clamp_(max=LARGEST_BYTE)
    first, second = torch.randint(_CYCLE, (2,), generator=generator, device=scales.device).tolist()
    scales.view(-1)[first::_CYCLE] = 0
    scales.view(-1)[second::_CYCLE] = 0
    payload.view(torch.uint8).view(-1, BLOCK)[second::_CYCLE] = 0


def draw_operand(
    shape: tuple[int, int], rule: str, generator: torch.Generator, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a matrix [R,K] in MX-FP8: payload float8_e4m3fn [R,K] and scales uint8 [R,K/32]."""
    payload, scales = quantize_mx(normal(shape, generator, device).bfloat16(), rule)
    spread_scales_(payload, scales, generator)
    return payload, scales
