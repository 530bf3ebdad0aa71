"""Chapters of the presets of one run: numbers in planted runs, and what they say where there is little to say."""

import pytest
from rooflens.reports.model import Tone
from rooflens.reports.presets import of_a_run
from rooflens.reports.sections.conditions.configurations import configurations, described
from rooflens.reports.sections.speedups.flat import flat, floor_of
from rooflens.reports.sections.speedups.maxima import maxima
from rooflens.reports.sections.speedups.sides import sides
from rooflens.reports.sections.speedups.speedup import speedup_of_challengers
from rooflens.reports.sections.speedups.three_way import three_way
from rooflens.reports.sections.speedups.winners import winners
from rooflens.reports.sections.summary.legend import divided, families_of, legend
from rooflens.reports.view import ShapeKey
from rooflens.shapes.errors import UsageError

from .planted import PLAIN, SMALL, chapters_of, exact, synthetic, tables, texts, view_of, words

TRIO = ("simt_4bit", "dequant_blas", "blas")


def many_ties(folder, rounds=3):
    """Twelve cells whose ratio runs from 0.97 to 1.03 over the rounds."""
    seen = {}

    def latency(cell):
        if cell.provider == "simt_4bit":
            return 1e-3
        number = seen[cell] = seen.get(cell, -1) + 1
        return 1e-3 * (0.97, 1.03, 1.0)[number]

    return view_of(
        folder, shapes=SMALL, Ms=(1, 2, 4, 8), providers=TRIO[:2], latency=latency, rounds=rounds,
        round_noise=0, sample_noise=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rounds", "band"), [(3, " (their rounds up to 1.06× apart)"), (1, "; one common round: no interval")]
)
def test_ties_say_how_far_they_scatter_and_are_not_claimed(tmp_path, rounds, band):
    found = chapters_of(many_ties(tmp_path / "run", rounds), speedup_of_challengers)
    assert tables(found)["speedup-bf16-nf4-g64-cold-simt-4bit"].reading == (
        f"12 cells: 0 faster, 0 slower, 12 undecided{band}."
    )


def test_a_win_is_verified_or_shared(tmp_path):
    def latency(cell):
        order = {"simt_4bit": 1.0, "blas": 0.5, "dequant_blas": 1.0 if cell.M == 1 else 2.0}
        return 1e-3 * order[cell.provider]

    view = view_of(tmp_path / "run", shapes=SMALL, Ms=(1, 8), providers=TRIO, latency=latency, sample_noise=0)
    found = tables(chapters_of(view, winners))
    assert texts(found["wins-bf16-nf4-g64-cold"]) == [
        ["fastest", "M=1", "M=8", "all"],
        ["dequant_blas or simt_4bit", "3", "0", "3"],
        ["simt_4bit", "0", "3", "3"],
        ["cells", "3", "3", "6"],
    ]
    times = found["times-bf16-nf4-g64-cold"]
    shared, won = times.rows[0], times.rows[1]
    assert [column.header for column in times.columns[3:]] == ["simt_4bit", "dequant_blas", "blas (reference)", "best"]
    assert "A reference reads operands that were decoded outside of the timed call" in times.how_to_read
    assert shared[-1].text == "dequant_blas or simt_4bit"
    assert shared[-1].note.startswith("not distinguished")
    assert not any(cell.tone is Tone.BEST for cell in shared)
    assert [cell.tone is Tone.BEST for cell in won[3:]] == [True, False, False, False]


def test_a_kernel_beside_references_alone_has_nothing_to_win(tmp_path):
    view = view_of(tmp_path / "run", shapes=SMALL, Ms=(1, 8), providers=("simt_4bit", "blas", "stock_triton"))
    found = tables(chapters_of(view, winners))
    assert list(found) == ["times-bf16-nf4-g64-cold"]
    rows = found["times-bf16-nf4-g64-cold"].rows
    assert {row[-1].text for row in rows} == {""}
    assert not any(cell.tone is Tone.BEST for row in rows for cell in row)


def test_providers_timed_in_different_ways_share_a_win(tmp_path):
    timers = {"simt_4bit": "host", "dequant_blas": "graph", "blas": "host"}
    view = view_of(
        tmp_path / "run",
        shapes=SMALL[:1],
        Ms=(1,),
        **exact(simt_4bit=1e-3, dequant_blas=2e-3, blas=4e-3),
        columns=lambda cell, round_: {"timer": timers[cell.provider]},
    )
    rows = texts(tables(chapters_of(view, winners))["wins-bf16-nf4-g64-cold"])
    assert rows[1] == ["dequant_blas or simt_4bit", "1", "1"]


def test_configurations_name_what_differs():
    two = ['{"BLOCK_M":16,"BLOCK_N":32}', '{"BLOCK_M":16,"BLOCK_N":64}', ""]
    assert described(two) == "BLOCK_M=16, BLOCK_N=32 or 64"
    assert described(['{"fwd":{"K":1},"swap":true}', '{"fwd":{"K":1}}']) == "fwd.K=1, swap=true or unset"
    assert described([f'{{"SPLIT_K":{number}}}' for number in range(1, 9)]) == "SPLIT_K=1 to 8 (8 values)"
    assert described(["{}", ""]) == ""


def test_routes_of_a_dispatching_provider(tmp_path):
    view = view_of(
        tmp_path / "run",
        shapes=SMALL,
        Ms=(1, 64),
        **PLAIN,
        columns=lambda cell, round_: (
            {"dispatched": f"{'gemv' if cell.M == 1 else 'mma'}: by its table"} if cell.provider == "simt_4bit" else {}
        ),
    )
    assert texts(tables(chapters_of(view, configurations))["routes"])[1:] == [
        ["simt_4bit", "gemv", "by its table", "1", "3"],
        ["simt_4bit", "mma", "by its table", "64", "3"],
    ]


def test_a_floor_needs_rows_of_equal_time_whose_work_grows():
    def row(time, flops):
        return {"time_s": time, "flops": flops, "compulsory_bytes": 1, "bound_class": "launch"}

    grows = [row(1e-5, 1), row(1.05e-5, 2), row(1.1e-5, 4), row(2e-5, 8)]
    assert floor_of(grows) == grows[:3]
    assert floor_of([row(1e-5, 1), row(1.05e-5, 2), row(1.1e-5, 3)]) == []
    assert floor_of(grows[:2]) == []
    assert floor_of([]) == []


def test_launch_bound_rows_say_so(tmp_path):
    tiny = (("toy", "a", 64, 64), ("toy", "b", 64, 128))
    view = view_of(
        tmp_path / "run", shapes=tiny, Ms=(1, 2), **exact(simt_4bit=1.6e-6, dequant_blas=1.6e-6, blas=1.6e-6)
    )
    found = chapters_of(view, flat)
    table = tables(found)["cells-bf16-nf4-g64-cold-simt-4bit"]
    classes = [row[-2] for row in table.rows]
    launched = [cell for cell in classes if cell.text == "launch"]
    assert launched
    assert all("launch-bound" in cell.note for cell in launched)


def test_families_of_shapes_are_named_without_their_degree():
    def shape(layer, **sizes):
        return ShapeKey("m", layer, "gemm", **({"B": 1, "E": 1, "N": 1, "K": 1} | sizes))

    wide = [shape("qkv tp1", N=9216, K=6144), shape("qkv tp4", N=2304, K=6144), shape("o", N=7, K=5)]
    found = families_of(wide)
    assert [(family.name, family.degrees) for family in found] == [("m qkv", (1, 4)), ("m o", ())]
    assert divided(found[0].shapes, found[0].degrees) == "N × TP = 9216"
    assert divided(found[1].shapes, found[1].degrees) == ""
    uneven = [shape("q tp1", N=100, K=10), shape("q tp3", N=40, K=10)]
    assert divided(uneven, (1, 3)) == "not by the same factor"


def test_three_sides_follow_roles_and_need_no_time_of_the_baseline(tmp_path):
    one = {"shapes": SMALL[:1], "Ms": (1,)}
    for baseline in ("dequant_blas", "blas", "missing"):
        view = view_of(tmp_path / baseline, **one, baseline=baseline, **PLAIN)
        assert sides(view) == ("dequant_blas", "simt_4bit", "blas")
    assert {section.id for section in of_a_run("three-way").sections(view)} >= {"three-way", "takeaways"}
    two = view_of(tmp_path / "two", **one, baseline="missing", providers=("simt_4bit", "blas"))
    assert sides(view_of(tmp_path / "alone", **one, providers=("simt_4bit",))) is None
    with pytest.raises(UsageError, match="three-way needs"):
        of_a_run("three-way").sections(two)


def test_forward_and_backward_are_summed_where_no_step_was_measured_but_for_impossible_times(tmp_path):
    layers = tuple(("toy", f"{layer} {name}", 4096, 4096) for layer in "ab" for name in ("fwd", "bwd"))
    times = {"a fwd": 1e-3, "a bwd": 3e-3, "b fwd": 1e-8, "b bwd": 1e-3}

    def columns(cell, round_):
        layer, pass_ = cell.layer.split()
        return {"layer": layer, "pass": pass_, "flops": (2 if pass_ == "bwd" else 1) * cell.problem.flops}

    view = view_of(
        tmp_path, shapes=layers, Ms=(64,), machine=synthetic.H200, columns=columns,
        **exact(simt_4bit=lambda cell: times[cell.layer], dequant_blas=5e-3),
    )  # fmt: skip
    (table,) = (one for name, one in tables(chapters_of(view, three_way)).items() if name.startswith("sums-"))
    assert "1 problem; 1 excluded, faster than the device allows." in table.reading
    row = dict(zip((column.header for column in table.columns), table.rows[0], strict=True))
    assert [row[name].text for name in ("forward", "backward", "sum")] == ["1.000 ms", "3.000 ms", "4.000 ms"]
    assert row["rate"].value == pytest.approx(6 * 64 * 4096 * 4096 / 4e-3)


def test_one_round_verifies_no_maximum_and_sizes_are_those_that_were_asked_for(tmp_path):
    """Colours repeat after seven providers, so that those that could not run come last."""
    declined = {"failures": lambda cell: ("unsupported", "no such device") if cell.provider == "gemv_4bit" else None}
    asked = {"rounds": 1, "manifest": {"request": {"axes": ["M=1"]}}}
    providers = exact(simt_4bit=1e-3, gemv_4bit=1e-3, dequant_blas=2e-3, blas=0.5e-3)
    view = view_of(tmp_path, shapes=SMALL, Ms=(1,), **providers, **asked, **declined)
    row = tables(chapters_of(view, maxima))["maxima-table"].rows[0]
    assert (row[2].text, row[5].text) == ("none verified", "~2.00×")
    assert row[4].text.startswith("largest ratio at ")
    assert [cell.text for cell in row[6:]] == ["0 / 3", "0 / 3"]
    assert "M = 1: the command line asked for M=1." in words(chapters_of(view, legend))[0]
    assert view.styles == {"dequant_blas": 0, "simt_4bit": 1, "blas": 2, "gemv_4bit": 3}
