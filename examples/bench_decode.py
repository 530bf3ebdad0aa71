"""Two ways to decode 4-bit weights: rooflens bench bench_decode.py"""

import torch

packed = torch.randint(0, 256, (1 << 20,), dtype=torch.uint8)
code = torch.linspace(-1, 1, 16)
pairs = torch.cartesian_prod(code, code)


def bench_nibbles():
    return code[torch.stack((packed >> 4, packed & 15), dim=1).int()]


def bench_bytes():
    return torch.nn.functional.embedding(packed.int(), pairs)
