"""The views of `rooflens roofline` on a run whose truth is planted: gaps, pairs and ceilings."""

import csv
import json
from pathlib import Path

import pytest
from rooflens.analysis.crossover.refine import PLACE
from rooflens.reports.terms import GAP_PARTS
from rooflens.shapes.run_folder.columns import CEILINGS

from ..analysis.synthetic import H200

SHAPES = (("llama2-7b", "q/k/v/o", 4096, 4096), ("llama2-7b", "down", 4096, 11008))
MS = (1, 16, 256, 4096)
VECTOR = 16e12
DECODE = 12.0
READ, PEAK = H200.read, H200.peaks["bf16"]

EXTRA = (
    ("vector", "", "integer", "", VECTOR, "op/s", "measured", "integer chains"),
    ("clock", "", "boost", "", 1.83e9, "Hz", "spec", "vendor data sheet"),
    ("launch", "", "empty cold", "", 2.3e-6, "s", "measured", "empty kernel"),
    ("launch", "", "tile cold", "", 3.0e-6, "s", "measured", "one tile"),
)


def decoded(cell) -> float:
    return cell.N * cell.K * -(-cell.M // 16)


def geometry(cell, _round):
    if cell.provider != "simt_4bit":
        return {}
    rows = -(-cell.M // 16) * 16
    return {
        "issued_flops": 2 * rows * cell.N * cell.K, "workgroups": 132, "resident": 2, "tile_M": 16, "tile_N": 32,
        "decode_per_weight": DECODE, "decoded_weights": int(decoded(cell)),
    }  # fmt: skip


def latency(cell) -> float:
    """simt_4bit decodes for as long as it takes, and takes 1 us on top; blas takes 1.2 times its dense roof."""
    if cell.provider == "simt_4bit":
        return DECODE * decoded(cell) / VECTOR + 1e-6
    dense = 2 * (cell.N * cell.K + cell.M * (cell.N + cell.K))
    slow = 1.2 if cell.cache == "cold" else 0.6
    return max(slow * dense / READ, 1.2 * cell.problem.flops / PEAK)


@pytest.fixture
def decoding(plant):
    folder = plant(
        machine=H200, shapes=SHAPES, Ms=MS, providers=("simt_4bit", "blas"), challengers=("simt_4bit",),
        baseline="blas", caches=("cold", "warm"), latency=latency, round_noise=0, sample_noise=0, columns=geometry,
        telemetry=lambda cell, round_: [{"clock_hz": 1.83e9 * 0.9, "slowdown": ""}],
    )  # fmt: skip
    with (folder / CEILINGS.file).open("a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(EXTRA)
    return folder


def test_gaps_add_up_in_json_and_are_shown_as_shares(decoding, invoke):
    found = json.loads(invoke("roofline", "planted", "--json").out)
    assert {"cells", "gaps", "gap_totals", "pairs", "roofs", "shares"} <= found.keys()
    parts = ("ideal", "clock", "tile", "wave", "dequant", "memory", "schedule", "startup", "residual")
    assert len(found["gaps"]) == len(SHAPES) * len(MS) * 2 * 2
    for gap in found["gaps"]:
        assert sum(gap[f"{part}_s"] or 0 for part in parts) == pytest.approx(gap["time_s"], rel=1e-9)
    for total in found["gap_totals"]:
        assert sum(total[f"{part}_share"] or 0 for part in parts) == pytest.approx(1)
    out, err = invoke("roofline", "planted", "--gaps")
    cells, totals = out.split("\n\n")
    assert cells.splitlines()[1].split()[-8:] == [name for name in GAP_PARTS.values() if name != "schedule"]
    assert totals.startswith("shares of the total time")
    assert "note: blas (fwd, bf16, nf4-g64, cold): not known, so in the rest: tiles, waves\n" in err
    assert "simt_4bit (fwd" not in err  # all of its steps are known


def test_a_provider_may_be_chosen_by_its_name(decoding, invoke):
    found = json.loads(invoke("roofline", "planted", "-p", "simt_4bit", "--json").out)
    assert {cell["provider"] for cell in found["cells"]} == {"simt_4bit"}
    assert "did you mean simt_4bit" in invoke("roofline", "planted", "-p", "simt", code=2).err


VIEWS = {
    (): ["of bound"],
    ("--pairs",): ["2.00×", "geometric means"],
    ("--gaps", "--ceilings"): ["shares of the total time", "16.0 Top/s", "at the observed clock"],
}


def test_every_view_keeps_to_the_width_of_the_terminal(decoding, invoke, monkeypatch):
    for view, words in VIEWS.items():
        whole = invoke("roofline", "planted", *view).out
        assert all(word in whole for word in words)
    monkeypatch.setenv("COLUMNS", "80")
    for view in VIEWS:
        assert max(map(len, invoke("roofline", "planted", *view).out.splitlines())) <= 80


def test_a_run_in_which_nothing_passed_is_shown_without_a_crash(plant, invoke):
    plant(Ms=(1, 2), failures=lambda cell: ("oom", "out of memory"), ceilings=False)
    for view in ([], ["--gaps"], ["--ceilings"], ["--json"]):
        assert "Traceback" not in invoke("roofline", "planted", *view).err
    assert "rooflens run --cache cold,warm measures both" in invoke("roofline", "planted", "--pairs").err


def test_what_a_refinement_added_at_one_shape_is_a_cell_and_in_no_share(plant, invoke):
    """Its shares are those of the report, in which every shape has the same M."""
    (model, layer, N, K), pair = SHAPES[0], ("simt_4bit", "dequant_blas")
    place = dict(zip(PLACE, (model, layer, "gemm", 1, 1, 1, N, K, "fwd", "bf16", "nf4-g64", "cold"), strict=True))
    added = [place | {"M": 24, "providers": list(pair)}]
    plant(
        shapes=SHAPES, Ms=(1, 16, 24, 256), providers=pair, skip=lambda cell, _: cell.M == 24 and cell.layer != layer,
        manifest={"refine": {"challenger": pair[0], "incumbent": pair[1], "complete": True, "added": added}},
    )  # fmt: skip
    found = json.loads(invoke("roofline", "planted", "--json").out)
    assert len(found["cells"]) == 2 * 3 * 2 + 2
    assert {cell["M"] for cell in found["cells"] if cell["refined"]} == {24}
    assert all(cell["fraction_of_bound"] > 0 for cell in found["cells"])
    assert sum(row["cells"] for row in found["shares"]) == 2 * 3 * 2


def test_steps_that_are_known_of_some_cells_have_the_names_of_the_columns(invoke):
    err = invoke("roofline", Path(__file__).parents[2] / "docs" / "results" / "h200-mxfp8-moe", "--gaps").err
    (note,) = (line for line in err.splitlines() if "note: dispatch_moe (fwd, bf16" in line)
    assert note.endswith("rest: tiles of 0% of the time")
