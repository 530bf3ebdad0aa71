"""Sweeps over memory by torch's own operations: one pass per launch, on whatever device torch has."""

from functools import partial

import torch

from .probe import Pattern, Probe


def sweep(pattern: Pattern, data: torch.Tensor) -> Probe:
    """Bind torch's operation for `pattern` over `data`, contiguous int32; a copy uses its two halves."""
    size = f"{data.nbytes / 2**20:.4g} MiB"
    if pattern is Pattern.COPY:
        half = data.numel() // 2
        source, target = data[:half], data[half : 2 * half]
        return Probe(partial(target.copy_, source), source.nbytes + target.nbytes, f"torch copy_ of {size}")
    if pattern is Pattern.WRITE:
        return Probe(partial(data.fill_, 0x12345678), data.nbytes, f"torch fill_ of {size}")
    floats = data.view(torch.float32)
    total = torch.zeros((), dtype=torch.float32, device=data.device)
    run = partial(torch.sum, floats, dim=0, out=total)
    return Probe(run, data.nbytes, f"torch sum of {size}", operations=3)  # it may clear counters, and take two steps
