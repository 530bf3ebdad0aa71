"""Which operands are quantized without divisions; that the bits stay the same is checked on a GPU, by the contract."""

import pytest
import torch
from rooflens.kernels.jit.quantizing import newton


@pytest.mark.parametrize(
    ("dtype", "place", "wanted", "answer"),
    [
        (torch.bfloat16, "meta", 1, True),
        (torch.float16, "meta", 1, True),
        (torch.float32, "meta", 1, False),
        (torch.bfloat16, "cpu", 1, False),
        (torch.bfloat16, "meta", 0, False),
    ],
)
def test_only_short_types_go_without_divisions(dtype, place, wanted, answer):
    assert newton(torch.empty(2, dtype=dtype, device=place), wanted) is answer
