"""Random operands: powers of two per group, in any layout of groups, the same for the same seed, in pieces or whole."""

import math

import pytest
import torch
from rooflens.kernels import draw as module
from rooflens.kernels.draw import BLOCKS, LINES, draw, multiply_groups_, powers_of_two, rms, spread, with_extremes
from rooflens.kernels.fp8train.quantize import quantize


def seeded(seed=3):
    return torch.Generator().manual_seed(seed)


def test_powers_of_two_are_exact():
    exponents = torch.arange(-126, 128)
    assert powers_of_two(exponents).tolist() == [2.0**e for e in range(-126, 128)]
    assert powers_of_two(torch.tensor([3], dtype=torch.uint8)).tolist() == [8.0]


@pytest.mark.parametrize("sizes", [(256, 256), (130, 300), (5, 7), (1, 129), (128, 1)])
@pytest.mark.parametrize("groups", [(1, 128), (128, 1), (128, 128), (1, 32), (1, 1)])
def test_each_element_is_multiplied_by_the_factor_of_its_group(sizes, groups):
    grid = [math.ceil(size / group) for size, group in zip(sizes, groups, strict=True)]
    values = torch.randn(2, *sizes, generator=seeded())
    factors = spread(LINES)((2, *grid), seeded(), torch.device("cpu"))
    expected = values.clone()
    for row in range(sizes[0]):
        for column in {0, 1, sizes[1] // 2, sizes[1] - 1} & set(range(sizes[1])):
            expected[:, row, column] *= factors[:, row // groups[0], column // groups[1]]
    multiply_groups_(values, *groups, factors)
    for column in {0, 1, sizes[1] // 2, sizes[1] - 1} & set(range(sizes[1])):
        assert torch.equal(values[:, :, column], expected[:, :, column])


def test_only_scales_tell_the_groups_apart():
    """Quantized, the payload of a group is that of normal values; its scale is off by the factor, exactly."""
    generator = seeded()
    dense = draw(torch.empty(256, 512), generator, 128, 128)
    factors = spread(BLOCKS)((2, 4), seeded(), torch.device("cpu"))
    plain = dense / factors.repeat_interleave(128, 0).repeat_interleave(128, 1)
    assert plain.std() == pytest.approx(1.0, abs=0.01)
    with_factors, without = (quantize(x, "weight", torch.float8_e4m3fn) for x in (dense, plain))
    assert torch.equal(with_factors.data.view(torch.uint8), without.data.view(torch.uint8))
    assert torch.equal(with_factors.scale, without.scale * factors)
    assert len(set(factors.flatten().tolist())) > 1


@pytest.mark.parametrize(("rows", "exponents", "expected"), [(1, LINES, 1.1524), (128, BLOCKS, 0.7906)])
def test_the_rms_is_the_one_that_is_stated(rows, exponents, expected):
    dense = draw(torch.empty(128 * 16, 128 * 32), seeded(), rows, 128)
    assert rms(exponents) == pytest.approx(expected, abs=1e-4)
    assert dense.square().mean().sqrt() == pytest.approx(expected, rel=0.03)


def test_draws_repeat_and_nothing_is_drawn_twice(monkeypatch):
    first, again, other = (draw(torch.empty(300, 70), seeded(seed), 128, 1) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 1)  # 128 rows at a time
    pieces = draw(torch.empty(300, 70), seeded(1), 128, 1)
    assert pieces.abs().min() > 0
    assert pieces.flatten().unique().numel() == pytest.approx(300 * 70, rel=1e-3)
    factors = spread(LINES)((3, 70), seeded(1), torch.device("cpu"))
    assert (pieces / factors.repeat_interleave(128, 0)[:300]).std() == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("grid", [(1, 17), (17, 1), (5, 4)])
def test_quantizers_meet_zeros_and_both_extremes(grid, seed):
    factors = with_extremes((-20, -19), (20, 21))(grid, seeded(seed), torch.device("cpu")).flatten().tolist()
    for special in (0.0, 2.0**-20, 2.0**20):
        assert 1 <= factors.count(special) <= 2
    assert set(factors) <= {0.0, 2.0**-20, 2.0**20, 0.25, 0.5, 1.0, 2.0}
