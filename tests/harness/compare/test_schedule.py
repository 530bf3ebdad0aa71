"""The order of arms: everybody in every round, and no drift in straight lines favours anybody."""

from collections import Counter

import pytest
from rooflens.harness.compare.spec import balanced


def test_two_arms_go_abba():
    arms = [arm for _, arm in balanced(("base", "head"), 4)]
    assert arms == ["base", "head", "head", "base"] * 2


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_round_has_every_arm_once(count):
    names = [f"arm {number}" for number in range(count)]
    seen = Counter(balanced(names, 8))
    assert set(seen) == {(number, name) for number in range(8) for name in names}
    assert set(seen.values()) == {1}


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_drift_in_straight_lines_hits_all_arms_alike(count):
    """Mean position of each arm over 2 * count rounds."""
    names = [f"arm {number}" for number in range(count)]
    positions = {name: [] for name in names}
    for position, (_, arm) in enumerate(balanced(names, 2 * count)):
        positions[arm].append(position)
    means = {sum(found) / len(found) for found in positions.values()}
    assert max(means) - min(means) < 1e-9


@pytest.mark.parametrize("count", [2, 3, 4])
def test_each_arm_comes_first_equally_often(count):
    names = [f"arm {number}" for number in range(count)]
    order = list(balanced(names, 2 * count))
    firsts = Counter(order[number * count][1] for number in range(2 * count))
    assert set(firsts.values()) == {2}
