"""Changes of cases whose configuration changed: planted causes are found, and the parts add up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.analysis.comparison.attribution import Attribution, attribute

SIZE = 0.05


def times(code, choice, rounds=8, sd=0.0, seed=0):
    """[cases, rounds, 4] of base, head, base with head's configuration, head with base's."""
    code, choice = np.asarray(code, dtype=float), np.asarray(choice, dtype=float)
    means = np.stack([np.zeros_like(code), code + choice, choice, code], axis=-1)
    noise = np.random.default_rng(seed).normal(0, sd, (len(code), rounds, 4)) if sd else 0.0
    return 1e-4 * np.exp(means[:, None, :] + noise)


def test_planted_causes_are_found_in_19_of_20():
    generator = np.random.default_rng(3)
    right = total = 0
    for seed in range(60):
        truth = generator.choice([Attribution.CODE, Attribution.CHOICE, Attribution.BOTH, Attribution.NEITHER], 12)
        code = np.where(np.isin(truth, [Attribution.CODE, Attribution.BOTH]), generator.choice([-SIZE, SIZE], 12), 0.0)
        choice = np.where(
            np.isin(truth, [Attribution.CHOICE, Attribution.BOTH]), generator.choice([-SIZE, SIZE], 12), 0.0
        )
        found = attribute(times(code, choice, sd=0.007, seed=seed))
        right += int((found["cause"].to_numpy() == truth).sum())
        total += len(truth)
    assert right / total >= 0.95


@given(st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5)), min_size=1, max_size=10), st.integers(0, 1000))
def test_code_and_choice_add_up_to_the_total(parts, seed):
    code, choice = zip(*parts, strict=True)
    found = attribute(times(code, choice, sd=0.02, seed=seed))
    assert found["total"].to_numpy() == pytest.approx((found["code"] + found["choice"]).to_numpy(), abs=1e-12)


def test_what_could_not_be_swapped_is_another_space():
    swapped = times([0.0, 0.0], [SIZE, SIZE], sd=0.002)
    swapped[1, :, 2:] = np.nan
    found = attribute(swapped, np.array([True, False]))
    assert found["cause"].tolist() == [Attribution.CHOICE, Attribution.SPACE]
    assert found["total"][1] == pytest.approx(SIZE, abs=0.01)
    assert np.isnan(found["code"][1])
