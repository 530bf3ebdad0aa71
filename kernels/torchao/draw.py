"""Random operands, drawn in pieces so that the fp32 they come from is never whole."""

import torch

from ..inputs import normal

_CHUNK_ELEMENTS = 1 << 26


def draw(out: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Overwrite `out` [R,C] with standard normal values, rounded to its type. Returns it."""
    step = max(1, _CHUNK_ELEMENTS // out.shape[1])
    for first in range(0, out.shape[0], step):
        rows = out[first : first + step]
        rows.copy_(normal(rows.shape, generator, out.device))
    return out
