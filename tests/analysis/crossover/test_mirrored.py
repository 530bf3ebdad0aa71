"""With challenger and incumbent swapped, every M of an answer stays as it is, and every side is the other one."""

import math
from itertools import combinations
from pathlib import Path

import pytest
from rooflens.analysis.crossover.across_shapes import median_crossovers
from rooflens.analysis.crossover.curve import CrossoverStatus
from rooflens.analysis.crossover.per_shape import crossovers
from rooflens.analysis.crossover.refine import further
from rooflens.analysis.frames.coordinates import SETTING, SHAPE
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.summarize import round_medians, summarize

from .mirrored import STATUS, regions

RESULTS = Path(__file__).parents[3] / "docs" / "results"
RUNS = sorted(path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("run.json"))
QUICK = ("h200-ao-quant", "upstream-aiter")
ALIKE = ("low_M", "high_M", "M_min", "M_max", "crossover_M")


def by_place(found):
    return {tuple(row[name] for name in (*SHAPE, *SETTING)): row for row in found.to_dict("records")}


def rule(median):
    """The threshold of a pair: what it costs, and at which measured M it takes the challenger and the incumbent."""
    one = median.threshold
    return one and (one.cells, one.worst_shape, one.worst_M, one.side, one.M)


def swapped(told, sizes):
    """The same rule, told of the other provider: the next measured M, and the other side."""
    if told is None or told[-1] is None:
        return told and (*told[:3], STATUS[told[3]], None)
    after = 1 if told[3] is CrossoverStatus.BELOW else -1
    return (*told[:3], STATUS[told[3]], sizes[sizes.index(told[4]) + after])


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in RUNS]
)
def test_every_stored_pair_gives_the_mirror_image(name):
    run = load_run(RESULTS / name)
    cells, rounds = summarize(run), round_medians(run)
    passed = cells.loc[cells["verdict"] == "passed", "provider"].unique()
    for pair in combinations(passed, 2):
        there, back = crossovers(cells, rounds, *pair), crossovers(cells, rounds, *pair[::-1])
        one, other = by_place(there), by_place(back)
        for place in one.keys() ^ other.keys():  # only one of the two has cells there
            assert (one.get(place) or other[place])["status"] == CrossoverStatus.UNMEASURED
        for place in one.keys() & other.keys():
            row, image = one[place], other[place]
            assert image["status"] == STATUS[CrossoverStatus(row["status"])]
            assert image["regions"] == regions(row["regions"])
            assert [image[key] for key in ("Ms", "undecided", "missing", "refined")] == [
                row[key] for key in ("Ms", "undecided", "missing", "refined")
            ]
            assert [image[key] for key in ALIKE] == pytest.approx([row[key] for key in ALIKE], nan_ok=True)
        assert further(there, cells, []) == further(back, cells, []) or len(one) != len(other)
        images = {median.setting: median for median in median_crossovers(back)}
        for median in median_crossovers(there):
            image = images.get(median.setting)
            if image is None:
                continue
            assert image.side == (median.side and STATUS[median.side])
            assert image.places == pytest.approx(median.places)
            assert (image.between, image.low_M, image.high_M) == (median.between, median.low_M, median.high_M)
            assert (image.median_M is None) == (median.median_M is None)
            assert image.median_M == pytest.approx(median.median_M)
            told = {size for row in one.values() for size in row["Ms"] if _is_of(row, median)}
            assert rule(image) == swapped(rule(median), sorted(told))
            if median.threshold:
                assert math.isclose(image.threshold.mean_regret, median.threshold.mean_regret, abs_tol=1e-12)


def _is_of(row, median):
    return tuple(row[name] for name in SETTING) == median.setting
