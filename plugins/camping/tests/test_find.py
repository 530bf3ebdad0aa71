"""Planted campers, and everything that must not be taken for one."""

import numpy as np
import pandas as pd
import pytest
from rooflens.plugins.camping.find import find

from .planted import grid_of, in_waves, planted, usual

SIZES = range(1024, 8193, 64)


def camping(every, seconds, upto=8, also=lambda cells: False):
    return lambda cells: usual(cells) + seconds * (((cells["N"] % every == 0) | also(cells)) & (cells["M"] <= upto))


def suspects(found):
    return found.suspects.loc[found.suspects["explained"] == ""]


@pytest.mark.parametrize("seed", range(5))
def test_campers_come_back_with_sizes_rows_height_and_period(seed):
    found = find(*planted(SIZES, time=camping(2048, 12e-6), processes=3, seed=seed))
    named = suspects(found).set_index("N").sort_index()
    assert named.index.tolist() == [2048, 4096, 6144]  # 8192 ends the scan: nothing lies beyond it
    assert set(named["Ms"]) == {(1, 2, 4, 8)}
    np.testing.assert_allclose(named["excess_s"], 12e-6, rtol=0.12)
    assert set(named["pad"]) == {64}
    before = usual(pd.DataFrame({"M": 4, "N": named.index, "K": 4096})).to_numpy()
    np.testing.assert_allclose(named["saved"], 1 - before / (before + 12e-6), atol=0.05)
    periods = found.periods
    assert set(periods["period"]) == {2048}
    assert periods["M"].tolist() == [1, 2, 4, 8]
    assert set(periods["sizes"]) == {(2048, 4096, 6144, 8192)}
    assert set(periods["reproduced"]) == {"yes"}
    assert set(periods["row_bytes"]) == {4096}  # bf16 rows of Y
    first = periods.iloc[0]
    truth = np.median([1 + 12e-6 / usual(pd.Series({"M": 1, "N": size, "K": 4096})) for size in first["sizes"]])
    assert first["ratio"] == pytest.approx(truth, rel=0.05)


def test_times_without_an_interval_name_a_camper_and_propose_no_padding():
    cells, rounds, commits = planted(SIZES, Ms=(1,), time=camping(2048, 12e-6))
    found = find(cells.assign(time_low_s=np.nan, time_high_s=np.nan), rounds, commits)
    assert sorted(suspects(found)["N"]) == [2048, 4096, 6144]
    assert suspects(found)["pad"].isna().all()


def test_both_families_of_periods_are_told_apart():
    found = find(*planted(SIZES, Ms=(1,), time=camping(2048, 5e-6, also=lambda cells: cells["N"] % 768 == 0)))
    assert sorted(found.periods["period"]) == [768, 2048]
    (scan,) = found.scans.to_dict("records")
    assert scan["found"] == 2
    assert 0 < scan["detectable"] < scan["hardest"] < np.log(1.10)  # of what is left


def test_a_row_stride_along_K_is_told_in_bytes():
    def time(cells):
        return usual(cells) * (1 + 0.4 * (cells["K"] % 2048 == 0))

    found = find(*planted(range(2048, 10241, 128), axis="K", fixed=4096, Ms=(1, 4), time=time))
    assert set(zip(found.periods["axis"], found.periods["period"], strict=True)) == {("K", 2048)}
    assert set(found.periods["row_bytes"]) == {1024}  # half a byte per weight
    assert set(suspects(found)["K"]) == {4096, 6144, 8192}


@pytest.mark.slow
def test_noise_alone_is_silent():
    """A run of five M each: runs with a suspect, and scans with a period, out of 40 and 200."""
    runs = [find(*planted(SIZES, noise=0.02, seed=seed)) for seed in range(40)]
    assert sum(len(run.suspects) > 0 for run in runs) <= 2
    assert sum(len(run.periods) for run in runs) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_waves_and_tiles_are_no_campers(known):
    """Sawteeth of many widths, tiles and residents stored or not: no suspect in 30 runs, periods in 5 % of 90 scans."""
    periods = scans = 0
    for tile, resident, step in ((16, 1, 64), (32, 2, 64), (64, 1, 64), (64, 4, 32), (128, 2, 128), (32, 3, 48)):
        sizes = range(8 * step, 128 * step, step)
        geometry = grid_of(tile, resident) if known else lambda cells: {}
        for seed in range(5):
            found = find(*planted(sizes, Ms=(1, 16, 32), time=in_waves(tile, resident), geometry=geometry, seed=seed))
            assert suspects(found).empty
            periods, scans = periods + len(found.periods), scans + len(found.scans)
    assert scans == 90
    assert periods <= 0.05 * scans


@pytest.mark.parametrize("known", [True, False])
def test_a_camper_among_waves_is_found(known):
    waves, geometry = in_waves(32, 2), grid_of(32, 2) if known else lambda cells: {}
    made = planted(
        SIZES,
        Ms=(1, 2, 4, 8),
        geometry=geometry,
        time=lambda cells: waves(cells) * (1 + 0.5 * (cells["N"] % 1024 == 0)),
    )
    named = suspects(find(*made))
    assert set(named["N"]) <= set(range(2048, 8192, 1024))
    assert len(named) >= 5
    assert set(named["ruled_out"]) == {"waves and tiles" if known else "steps of any origin"}
    assert set(find(*made).periods["period"]) == {1024}


def test_a_lone_size_that_pays_for_its_last_wave_is_explained():
    """Shapes far apart: one needs a second wave for a single tile, and takes twice as long. Its grid says why."""
    sizes = [2048, 2560, 3072, 3584, 4096, 4224, 4288, 6144, 7168, 8192]
    units = 132

    def geometry(cells):
        tiles = np.ceil(cells["N"] / 32)
        return {
            "workgroups": tiles, "waves": tiles / units, "wave_share": tiles / units / np.ceil(tiles / units),
            "tile_factor": cells["N"] * 0 + 1.0,
        }  # fmt: skip

    def time(cells):
        return usual(cells) * np.ceil(cells["N"] / 32 / units) / (cells["N"] / 32 / units)

    found = find(*planted(sizes, time=time, geometry=geometry, Ms=(1, 2, 4)))
    assert suspects(found).empty
    lone = find(*planted(sizes, time=lambda cells: time(cells) * (1 + 2.0 * (cells["N"] == 4096)), geometry=geometry))
    assert set(suspects(lone)["N"]) == {4096}


def test_another_configuration_than_on_both_sides_is_an_explanation():
    def config(cells):
        return pd.Series(np.where(cells["N"] == 2048, "small tiles", "large tiles"))

    made = planted(SIZES, time=lambda cells: usual(cells) * (1 + 0.5 * (cells["N"] == 2048)), config=config)
    found = find(*made)
    assert found.suspects["explained"].tolist() == ["another configuration"]


def test_grids_of_a_multiple_of_256_workgroups_are_marked():
    def geometry(cells):
        groups = cells["N"] / 4
        return {"workgroups": groups, "waves": groups / 528, "wave_share": 1.0, "tile_factor": 1.0}

    found = find(*planted(SIZES, Ms=(1, 2, 4), geometry=geometry, time=camping(1024, 6e-6)))
    assert set(found.periods["period"]) == {1024}
    assert found.periods["also_grid"].all()
    assert suspects(found)["on_grid"].all()
    assert found.sizes.loc[found.sizes["on_grid"], "N"].mod(1024).eq(0).all()


def test_scaling_all_times_changes_no_verdict():
    placed, rounds, cells = planted(SIZES, time=camping(1024, 8e-6), processes=3, seed=3)
    slow = placed.copy()
    times = ["time_s", "time_low_s", "time_high_s", "memory_time_s", "compute_time_s", "launch_time_s"]
    slow[times] *= 1000
    here = find(placed, rounds, cells)
    there = find(slow, rounds.assign(median_s=1000 * rounds["median_s"]), cells)
    same = ["N", "Ms", "explained", "reproduced", "pad"]
    pd.testing.assert_frame_equal(here.suspects[same], there.suspects[same])
    columns = ["M", "period", "p", "reproduced", "pad"]
    pd.testing.assert_frame_equal(here.periods[columns], there.periods[columns])


def factors(slow):
    """Only in the processes `slow` does the camper camp: addresses decide, not the size."""
    return lambda cells, process: 1 + 0.6 * ((cells["N"] == 2048) & (process in slow))


@pytest.mark.parametrize(
    "processes, slow, verdict",
    [(1, {0}, "unknown"), (2, {0, 1}, "unknown"), (2, {0}, "no"), (3, {0, 1, 2}, "yes"), (3, {0, 2}, "no")],
)
def test_a_camper_is_verified_by_processes(processes, slow, verdict):
    made = planted(SIZES, Ms=(1, 2, 4), rounds=6, processes=processes, factor=factors(slow))
    (named,) = suspects(find(*made)).to_dict("records")
    assert (named["N"], named["reproduced"]) == (2048, verdict)
    assert (named["shown"], named["processes"]) == (len(slow), processes)


def test_an_isolated_shape_is_compared_with_shapes_of_its_size():
    """No two shapes share N or K; the square one stalls, as in the 4-bit kernels' published charts."""
    parts = []
    for number, K in enumerate(range(1024, 5120, 128)):
        N = 2048 + 96 * number
        parts.append(planted([N], fixed=K, Ms=(1, 2, 4), time=lambda cells: (
            usual(cells) + 25e-6 * ((cells["K"] == 2048) & (cells["M"] <= 4))
        ), seed=number))  # fmt: skip
    placed, rounds, cells = (pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True))
    ids = [f"c{number}" for number in range(len(placed))]
    per_cell = np.repeat(ids, 3)
    found = find(placed.assign(cell_id=ids), rounds.assign(cell_id=per_cell), cells.assign(cell_id=per_cell))
    (named,) = suspects(found).to_dict("records")
    assert (named["K"], named["axis"], named["Ms"]) == (2048, "NK", (1, 2, 4))
    assert np.isnan(named["pad"])
    assert found.scans.empty


def test_no_time_and_few_times_are_no_error():
    placed, rounds, cells = planted(SIZES)
    nothing = placed.assign(verdict="oom", time_s=np.nan)
    empty = find(nothing, rounds.iloc[:0], cells)
    assert empty.suspects.empty
    assert empty.coverage.empty
    few = find(*planted([1024, 4096]))
    assert few.coverage["tested"].tolist() == [0]
    assert few.coverage["detectable"].isna().all()


def test_cells_without_ceilings_are_compared_all_the_same():
    placed, rounds, cells = planted(SIZES, time=camping(2048, 12e-6))
    unknown = placed.assign(memory_time_s=np.nan, compute_time_s=np.nan, launch_time_s=np.nan)
    assert set(suspects(find(unknown, rounds, cells))["N"]) == {2048, 4096, 6144}
