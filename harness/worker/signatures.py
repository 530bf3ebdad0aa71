"""Whether tensors have changed: their shapes, and a sum over their bits that knows the place of each."""

from collections.abc import Sequence

import torch

_PLACE = -7046029254386353131  # 2^64 over the golden ratio, as a signed number: neighbouring places differ in all bits
_SPREAD = -4658895280553007687  # odd, so that to multiply by it loses nothing (a constant of SplitMix64)

CHUNK_WORDS = {"cpu": 1 << 18}
"""Words that are mixed at a time: on a CPU they and what is made of them stay in its cache."""

CHUNK_WORDS_ELSEWHERE = 1 << 22
"""On a GPU 32 MiB: then launches cost no more than the memory."""

Signature = tuple[tuple[int, ...], tuple[int, ...], int]
"""Shape, order of the dimensions in memory, and the sum of one tensor."""


def signatures(tensors: Sequence[torch.Tensor]) -> list[Signature]:
    """Return what stands for the bits of each tensor, with one wait for the device.

    Beside the tensors, which may be of any type, it takes memory for two chunks; tensors with gaps are copied.
    """
    parts: list[torch.Tensor] = []
    orders, counts = [], []
    for tensor in tensors:
        order = _memory_order(tensor)
        octets = tensor.permute(order).reshape(-1).view(torch.uint8)
        sums = [_mixed(words, first) for words, first in _chunks(octets)]
        parts += sums
        # a dimension of one element is nowhere in memory: its place is the allocator's affair
        orders.append(tuple(dimension for dimension in order if tensor.shape[dimension] > 1))
        counts.append(len(sums))
    values = iter(torch.stack(parts).tolist() if parts else [])
    sums_of = [_signed(sum(next(values) for _ in range(count))) for count in counts]
    return [(tuple(tensor.shape), order, total) for tensor, order, total in zip(tensors, orders, sums_of, strict=True)]


def _chunks(octets: torch.Tensor) -> list[tuple[torch.Tensor, int]]:
    """Words of a flat uint8 tensor, chunk by chunk, each with the place of its first word; zeros fill the last word."""
    count = octets.numel() // 8
    words = octets[: count * 8].view(torch.int64)
    step = CHUNK_WORDS.get(octets.device.type, CHUNK_WORDS_ELSEWHERE)
    found = [(words[first : first + step], first) for first in range(0, count, step)]
    rest = octets[count * 8 :]
    if rest.numel():
        padded = octets.new_zeros(8)
        padded[: rest.numel()] = rest
        found.append((padded.view(torch.int64), count))
    return found


def _mixed(words: torch.Tensor, first: int) -> torch.Tensor:
    """Sum of the words, each mixed with its place.

    Without the multiplication between them the two folds would let pairs of changes in the upper halves cancel; without
    the folds, which carry the upper half down, products would forget what stands high in a word, such as the last of
    four bf16 values.
    """
    mixed = torch.arange(first, first + words.numel(), dtype=torch.int64, device=words.device)
    mixed.mul_(_PLACE).add_(words)
    halves = mixed.view(torch.int32).view(-1, 2)
    halves[:, 0].bitwise_xor_(halves[:, 1])
    mixed.mul_(_SPREAD)
    halves[:, 0].bitwise_xor_(halves[:, 1])
    return mixed.sum()


def _memory_order(tensor: torch.Tensor) -> list[int]:
    """Dimensions from the longest stride to the shortest: in this order a dense tensor is flat without a copy."""
    return sorted(range(tensor.dim()), key=lambda dimension: -tensor.stride(dimension))


def _signed(value: int) -> int:
    """Wrap to a signed number of 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
