"""`rooflens dispatch` on runs whose truth is planted."""

import csv
import io
import json
import math

import pytest

SHAPES = tuple((f"model {index % 3}", f"l{index}", 512 * (1 + index), 1024) for index in range(6))


def crossing(cell):
    """simt_4bit takes half the time up to M = 8, and twice as long above."""
    return 1e-4 * (1 if cell.provider == "dequant_blas" else 0.5 if cell.M <= 8 else 2)


@pytest.fixture
def crossed(plant):
    return plant(
        latency=crossing, shapes=SHAPES, Ms=(1, 4, 8, 16, 64), providers=("simt_4bit", "dequant_blas"), rounds=4,
        samples=3,
    )  # fmt: skip


def test_the_planted_rule_is_found_with_the_weights_and_the_margin_that_are_asked_for(crossed, invoke, tmp_path):
    found = json.loads(invoke("dispatch", "planted", "--json").out)
    assert (found["incumbent"], found["arms"]) == ("dequant_blas", ["dequant_blas", "simt_4bit"])
    assert (found["recommended"], found["criterion"], found["gemms"]) == ("threshold", "shape", 30)
    by_name = {one["name"]: one for one in found["policies"]}
    assert by_name["threshold"]["held_out"]["model"]["mean"] < 0.01
    # always the incumbent: 3 of 5 M at ln 2; always the challenger: 2 of 5
    assert by_name["always dequant_blas"]["in_sample"]["mean"] == pytest.approx(0.6 * math.log(2), abs=0.01)
    assert by_name["always simt_4bit"]["in_sample"]["mean"] == pytest.approx(0.4 * math.log(2), abs=0.01)
    assert [(row["M"], row["arm"]) for row in found["policy"]["rules"][0]["by_M"]] == [
        (8, "simt_4bit"),
        (64, "dequant_blas"),
    ]
    assert len(found["changes"]) == 18
    assert {row["after"] for row in found["changes"]} == {"simt_4bit"}
    (tmp_path / "decode.csv").write_text("M,weight\n1,9\n64,1\n")
    found = json.loads(invoke("dispatch", "planted", "--weights", "decode.csv", "--margin", "80%", "--json").out)
    assert (found["weights"], found["margin"]) == ("histogram decode.csv", 0.8)
    by_name = {one["name"]: one["in_sample"] for one in found["policies"]}
    assert by_name["always simt_4bit"]["mean"] == pytest.approx(0.1 * math.log(2), abs=0.01)
    assert by_name["table"]["gain"] == 0  # ln 2 is less than 0.8


def test_for_a_reader(crossed, invoke, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = invoke("dispatch", "latest", "--rows", "2").out
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "M <= 8: simt_4bit" in out
    assert "M > 8: dequant_blas" in out
    (oracle,) = (line for line in lines if line.startswith("oracle"))
    assert oracle.split()[1:5] == ["0.00%", "0.00%", "0.00%", "100%"]
    joined = " ".join(out.split())
    assert "decisions that differ from dequant_blas: 18 of 30 GEMMs" in joined
    assert "threshold is the simplest policy within 0.5% of the least regret on new shapes" in joined


def test_what_is_emitted_is_all_that_is_printed(crossed, invoke):
    space: dict[str, object] = {}
    exec(invoke("dispatch", "planted", "--emit", "python").out, space)
    arch = json.loads((crossed / "run.json").read_text())["device"]["arch"]
    choose = space["choose"]
    assert [choose(arch, "bf16", "nf4-g64", size, 512, 1024) for size in (1, 8, 9)] == [
        *("simt_4bit", "simt_4bit", "dequant_blas")
    ]
    rows = list(csv.DictReader(io.StringIO(invoke("dispatch", "planted", "--emit", "csv").out)))
    assert sum(int(row["use_challenger"]) for row in rows) == 18
    assert {row["policy"] for row in rows} == {"table"}


def test_a_folder_gets_all_forms_and_a_later_run_is_compared_with_them(crossed, invoke):
    out, err = invoke("dispatch", "planted", "-o", "tuned", "--json")
    assert json.loads(out)["recommended"] == "threshold"
    assert [line for line in err.splitlines() if line.startswith("written")] == [
        f"written: tuned/dispatch.{suffix}" for suffix in ("csv", "json", "py")
    ]
    against = ("dispatch", "planted", "--against", "tuned/dispatch.json")
    assert json.loads(invoke(*against, "--json").out)["changes"] == []
    out = invoke(*against, "--policy", "always simt_4bit").out
    assert "decisions that differ from tuned/dispatch.json: 12 of 30 GEMMs" in out
    path = crossed.parents[1] / "tuned" / "dispatch.json"
    whole = path.read_text()
    path.write_text(whole.replace("simt_4bit", "gone_4bit"))
    out, err = invoke(*against, "--json")
    assert "note: --against tuned/dispatch.json: no arm here is gone_4bit; counted as dequant_blas" in err
    assert {row["before"] for row in json.loads(out)["changes"]} == {"dequant_blas"}
    path.write_text(whole.replace('"arch": "x86-64-avx512",\n "incumbent"', '"arch": "sm90",\n "incumbent"'))
    assert "it is for sm90, and this run is of x86-64-avx512" in invoke(*against, code=2).err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--challenger", "simt"], "did you mean simt_4bit"),
        (["--incumbent", "simt_4bit", "--challenger", "simt_4bit"], "nothing to choose from besides simt_4bit"),
        (["--weights", "none.csv"], "--weights none.csv: No such file"),
        (["--policy", "tabel"], "unknown policy 'tabel': did you mean table"),
        (["--against", "moon"], "no decisions of 'moon': name a file of --emit json, or one of dequant_blas, simt"),
        (["--emit", "csv", "--emit", "json"], "one is printed, several need -o DIR"),
        (["--emit", "csv", "--json"], "both print"),
        (["--cache", "warm"], "nothing to choose from besides dequant_blas; providers with a warm time: none"),
    ],
)
def test_a_wrong_question_is_one_line(crossed, refused, arguments, words):
    assert words in refused("dispatch", "planted", *arguments)


def test_an_output_that_cannot_be_written_is_one_line(crossed, invoke, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot write" in invoke("dispatch", "planted", "-o", "file/in", code=1).err
