"""Which further M a refinement asks for: bisection in log2 M, edges of tiles, limits, and what it leaves alone."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.analysis.crossover.per_shape import crossovers
from rooflens.analysis.crossover.refine import PLACE, Further, further, is_added, next_sizes
from rooflens.analysis.frames.coordinates import SETTING, SHAPE
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.analysis.run.summarize import round_medians, summarize
from rooflens.shapes.run_folder.manifest import Manifest

from ..synthetic import write_run

PAIR = ("simt_4bit", "dequant_blas")
SHAPES = (("m", "a", 64, 96), ("m", "b", 128, 96))
SWEEP = (1, 16, 256)


def but(asked):
    """Every M may be asked for, except these."""
    return lambda size: size not in asked


def narrowed(crossing, low, high, tiles=(), ratio=1.1, most=100):
    """Refine where the challenger certainly wins up to `crossing`; return the bracket and the M asked for."""
    measured, asked = {low, high}, []
    while len(asked) < most and (sizes := next_sizes(low, high, measured, but(asked), tiles, ratio)):
        assert all(low < size < high for size in sizes)
        asked += sizes
        measured |= set(sizes)
        low = max(size for size in measured if size <= crossing)
        high = min(size for size in measured if size > crossing)
    return low, high, asked


@pytest.mark.parametrize(
    ("low", "high", "asked", "tiles", "sizes"),
    [
        (16, 64, [], (), [32]),
        (64, 128, [], (), [91]),  # 64 * sqrt(2) = 90.5
        (1, 1024, [], (), [32]),
        # The edge of a wide tile is measured on both sides, and none is left in a narrow bracket.
        (64, 128, [], (16,), [96, 97]),
        (64, 128, [], (4,), [91]),  # narrower than the bracket is to become
        (96, 104, [], (), []),
        (96, 104, [], (32,), [97]),
        (96, 104, [97], (32,), []),
        (130, 250, [], (64, 48), [192, 193]),  # an edge of the tiles of both
        (200, 250, [], (64, 48), [240, 241]),
        # 64 wins, 128 loses, and nothing between undecided M helps: the ends can come nearer, the wider side first.
        (64, 128, [90, 91], (), [108]),
        (64, 128, [90, 91, 93], (), [76]),
        (60, 66, [63], (), []),
        (3, 5, [4], (), []),
    ],
)
def test_the_next_M_by_hand(low, high, asked, tiles, sizes):
    assert next_sizes(low, high, (low, *asked, high), but(asked), tiles) == sizes


def test_steps_at_the_edge_of_a_tile_are_found_to_the_row():
    assert narrowed(112, 64, 128, (16,))[:2] == (112, 113)
    assert narrowed(64, 64, 128, (64,)) == (64, 65, [65])  # the sweep has the other side
    assert next_sizes(64, 128, (64, 128), but([91]), ()) in ([90], [92])  # asked for without a result


@given(st.integers(1, 4000), st.integers(0, 20), st.floats(1.01, 2.0))
def test_bisection_ends_in_as_many_steps_as_halving_takes(low, octaves, ratio):
    high = low * 2**octaves + 1
    crossing = low + (high - low) // 3
    found_low, found_high, asked = narrowed(crossing, low, high, ratio=ratio)
    assert found_low <= crossing < found_high
    assert found_high == found_low + 1 or found_high / found_low <= ratio
    halvings = math.log2(math.log2(high / low) / math.log2(ratio)) if high / low > ratio else 0
    assert len(asked) <= math.ceil(max(0.0, halvings)) + 4  # whole numbers are not quite in the middle
    assert len(set(asked)) == len(asked)


@given(
    st.integers(1, 500), st.integers(2, 500), st.sets(st.integers(1, 1000)), st.sets(st.integers(1, 1000)),
    st.lists(st.integers(1, 256), max_size=2),
)  # fmt: skip
def test_it_asks_for_one_or_two_new_M_inside_the_bracket(low, width, measured, tried, tiles):
    sizes = next_sizes(low, low + width, measured | tried, but(tried), tiles)
    assert len(sizes) <= 2
    assert all(low < size < low + width and size not in tried for size in sizes)


def planted(crossings, Ms=SWEEP, more=(), **options):
    """Write a run whose challenger wins up to crossings[layer] by 0.35 nats per octave, and with `more` refined M."""

    def latency(cell):
        octaves = math.log2(cell.M / crossings[cell.layer])
        return 1e-3 * math.exp(0.35 * octaves * (cell.provider == PAIR[0]))

    added = {(layer, size) for layer, size in more}
    sizes = sorted({*Ms, *(size for _, size in more)})

    def absent(cell, round_):
        return cell.M not in Ms and ((cell.layer, cell.M) not in added or cell.provider not in PAIR)

    entries = [entry(layer, size) for layer, size in more]
    manifest = {"refine": {"challenger": PAIR[0], "incumbent": PAIR[1], "complete": True, "added": entries}}
    return {
        "shapes": [shape for shape in SHAPES if shape[1] in crossings], "Ms": sizes, "latency": latency,
        "skip": absent, "samples": 3, "round_noise": 0.001, "sample_noise": 0.001, "providers": PAIR,
        "manifest": manifest if more else None,
    } | options  # fmt: skip


def entry(layer, size, **values):
    N = {name: n for _, name, n, _ in SHAPES}[layer]
    place = dict(zip(PLACE, ("m", layer, "gemm", 1, 1, 1, N, 96, "fwd", "bf16", "nf4-g64", "cold"), strict=True))
    return place | {"M": size, "providers": list(PAIR)} | values


def found(tmp_path, *arguments, **options):
    run = load_run(write_run(tmp_path / "run", **planted(*arguments, **options)))
    cells = summarize(run)
    return cells, crossovers(cells, round_medians(run), *PAIR)


def test_every_shape_with_a_verified_change_is_asked_about(tmp_path):
    cells, crossings = found(tmp_path, {"a": 40.0, "b": 5000.0})
    assert crossings["status"].tolist() == ["below", "ahead"]
    (one,) = further(crossings, cells, [])
    assert dict(zip(PLACE, one.place, strict=True))["layer"] == "a"
    assert one.M == 64  # the middle of 16 and 256
    (second,) = further(crossings, cells, [one])  # asked for, and no result came of it
    assert abs(second.M - one.M) == 1


def test_every_change_of_a_winner_in_between_is_refined(tmp_path):
    def between(cell):
        lead = -0.3 if 8 <= cell.M <= 100 else 0.3
        return 1e-3 * math.exp(lead * (cell.provider == PAIR[0]))

    cells, crossings = found(tmp_path, {"a": 40.0}, latency=between)
    assert crossings["status"].tolist() == ["multiple"]
    wanted = further(crossings, cells, [])
    assert [one.M for one in wanted] == [4, 64]  # within [1, 16] and [16, 256]
    run = load_run(tmp_path / "run")
    assert further(crossovers(cells, round_medians(run), *PAIR[::-1]), cells, []) == wanted
    assert [one.M for one in further(crossings, cells, [], most=1)] == [4]


def test_the_limit_counts_what_was_added_before(tmp_path):
    cells, crossings = found(tmp_path, {"a": 40.0, "b": 40.0})
    place = further(crossings, cells, [])[0].place
    spent = [Further(place, size) for size in (17, 18, 19)]
    assert [one.place for one in further(crossings, cells, spent, most=3)] == [further(crossings, cells, [])[1].place]
    assert len(further(crossings, cells, spent, most=4)) == 2


def test_only_what_can_be_measured_is_asked_for(tmp_path):
    cells, crossings = found(tmp_path, {"a": 100.0})
    groups = [one.M for one in further(crossings, cells, [], can=lambda one: one.M % 48 == 0)]
    assert groups == [48]  # of 48, 96, ... 240 the nearest to 64
    assert further(crossings, cells, [], can=lambda one: False) == []


def test_tiles_come_from_the_column_or_the_configuration(tmp_path):
    config = {"columns": lambda cell, round_: {"config": {"BLOCK_M": 48}}}
    cells, crossings = found(tmp_path / "config", {"a": 40.0}, **config)
    assert [one.M for one in further(crossings, cells, [])] == [48, 49]
    cells, crossings = found(tmp_path / "column", {"a": 40.0}, columns=lambda cell, round_: {"tile_M": 80})
    assert [one.M for one in further(crossings, cells, [])] == [80, 81]
    assert len(further(crossings, cells, [], most=1)) == 1
    wgrad = cells.assign(**{"pass": "wgrad"})
    assert [one.M for one in further(crossings.assign(**{"pass": "wgrad"}), wgrad, [])] == [64]  # its rows are not M


def test_a_refined_run_is_read_as_a_sweep_with_better_crossovers(tmp_path):
    more = [("a", 32), ("a", 44), ("a", 38)]
    plain = analyze(load_run(write_run(tmp_path / "plain", **planted({"a": 40.0, "b": 5000.0}))))
    folder = write_run(tmp_path / "refined", **planted({"a": 40.0, "b": 5000.0}, more=more))
    refined = analyze(load_run(folder))
    assert refined.crossovers["refined"].tolist() == [3, 0]
    assert refined.crossovers["Ms"].tolist() == [(1, 16, 32, 38, 44, 256), SWEEP]
    first = refined.crossovers.iloc[0]
    assert (first["low_M"], first["high_M"]) == (38, 44)
    assert first["crossover_M"] == pytest.approx(40, rel=0.02)
    # Tables over all shapes have the columns of the sweep, and no mean over the one shape that was refined.
    for name in ("cells", "speedups", "means"):
        assert sorted(set(getattr(refined, name)["M"])) == sorted(set(getattr(plain, name)["M"])) == list(SWEEP)
    assert sorted(set(refined.added["M"])) == [32, 38, 44]
    assert refined.medians[0].threshold.cells == 9


def test_what_was_added_for_another_pair_is_no_missing_cell(tmp_path):
    options = planted({"a": 40.0}, more=[("a", 32)]) | {"providers": (*PAIR, "blas")}
    run = load_run(write_run(tmp_path / "run", **options))
    cells = summarize(run)
    other = crossovers(cells, round_medians(run), PAIR[0], "blas").iloc[0]
    assert (other["Ms"], other["missing"], other["refined"]) == (SWEEP, 0, 0)
    mine = crossovers(cells, round_medians(run), *PAIR).iloc[0]
    assert (mine["Ms"], mine["refined"]) == ((1, 16, 32, 256), 1)


def test_refinements_of_merged_runs_are_those_of_their_shards():
    one, two = ({"refine": {"added": [entry("a", size)]}} for size in (32, 38))
    merged = Manifest.read({"shards": [one, two, {}]}, "run.json").refinements
    assert [part.added[0]["M"] for part in merged] == [32, 38]
    row = {**{name: entry("a", 1)[name] for name in (*SHAPE, *SETTING)}, "provider": PAIR[0]}
    rows = pd.DataFrame([row | {"M": 32}, row | {"M": 33}, row | {"M": 38}, row | {"M": 38, "provider": "blas"}])
    assert is_added(rows, merged).tolist() == [True, False, True, False]
    assert not is_added(rows, []).any()
