"""`rooflens crossover` and `roofline` on a run whose truth is planted."""

import json

import pytest

MS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CROSSES_AT = {
    "llama3.2-1b k/v": 6.0,
    "llama3.2-1b down": 12.0,
    "llama2-7b q/k/v/o": 24.0,
    "llama3.1-8b/mistral-7b gate/up": 48.0,
    "qwen2.5-1.5b k/v": 96.0,
    "gpt-oss o": 1e6,
}
"""M at which simt_4bit and dequant_blas take the same time; the last one lies beyond the sweep."""

EXACT = {"round_noise": 0, "sample_noise": 0, "Ms": MS, "providers": ("simt_4bit", "dequant_blas")}


def crossing(cell):
    """The challenger's time grows with M, the incumbent's does not: ln of the ratio is a line over log2 M."""
    return 1e-5 * (cell.M if cell.provider == "simt_4bit" else CROSSES_AT[f"{cell.model} {cell.layer}"])


def test_crossovers_are_the_planted_ones(plant, invoke):
    plant(**EXACT, latency=crossing)
    found = json.loads(invoke("crossover", "planted", "--json").out)
    assert (found["challenger"], found["incumbent"]) == ("simt_4bit", "dequant_blas")
    at = {f"{shape['model']} {shape['layer']}": shape["crossover_M"] for shape in found["shapes"]}
    assert at.pop("gpt-oss o") is None
    assert at == pytest.approx({name: size for name, size in CROSSES_AT.items() if size < 1e6}, rel=1e-6)
    statuses = {shape["layer"]: shape["status"] for shape in found["shapes"]}
    assert statuses["o"] == "ahead"
    (median,) = found["medians"]
    assert median["median_M"] == pytest.approx((24 * 48) ** 0.5, rel=1e-6)
    assert len(median["places"]) == 6
    lines = invoke("crossover", "latest", "--challenger", "simt_4bit", "--incumbent", "dequant_blas").out.splitlines()
    rows = {line.split("  ")[0]: line.split() for line in lines}
    assert rows["llama2-7b q/k/v/o"][2:] == ["4096×4096", "M~24", "[16,", "32]", "below", "M", "≤", "16"]
    assert rows["gpt-oss o"][-3:] == ["ahead", "every", "M"]
    (median,) = (line for line in lines if line.startswith("simt_4bit ") and "M~34" in line)
    assert median.split()[:5] == ["simt_4bit", "bf16", "·", "cold", "below"]


def test_an_unfinished_run_with_one_M_says_how_to_resume(plant, invoke):
    plant(**EXACT, skip=lambda cell, number: cell.M > 1)
    out, err = invoke("crossover", "planted")
    assert "measured at one M" in out
    assert err.endswith("units are missing: resume with: rooflens run -o runs/planted --resume\n")


def test_the_pair_of_a_refined_run_is_the_default_and_else_the_leading_challenger(plant, invoke):
    refine = {"challenger": "mma_4bit", "incumbent": "simt_4bit", "complete": True, "added": []}
    order = ("mma_4bit", "simt_4bit")
    what = EXACT | {"providers": (*order, "dequant_blas"), "challengers": order}
    plant(**what, latency=crossing, manifest={"refine": refine})
    found = json.loads(invoke("crossover", "planted", "--json").out)
    assert (found["challenger"], found["incumbent"]) == ("mma_4bit", "simt_4bit")
    found = json.loads(invoke("crossover", "planted", "--incumbent", "dequant_blas", "--json").out)
    assert (found["challenger"], found["incumbent"]) == ("simt_4bit", "dequant_blas")  # it leads, listed first or not


@pytest.mark.parametrize(
    ("providers", "arguments", "words"),
    [
        (("simt_4bit", "dequant_blas"), ["--challenger", "simt"], "unknown provider of this run 'simt': did you"),
        (("simt_4bit", "dequant_blas"), ["--challenger", "dequant_blas"], "both 'dequant_blas'"),
        (("blas", "dequant_blas"), ["--challenger", "blas"], "--challenger blas: it is a reference of planted"),
        (("simt_4bit", "blas"), [], "dequant_blas was not measured; name one with --incumbent: simt_4bit, b"),
        (("dequant_blas",), [], "planted: nothing to compare: only the baseline dequant_blas has a time"),
        (("mma_4bit", "blas", "dequant_blas"), [], "--challenger: mma_4bit\n"),  # blas is a reference
    ],
)
def test_without_a_pair_that_ran_the_error_names_those_that_did(plant, refused, providers, arguments, words):
    plant(Ms=(1, 2), providers=providers, baseline="dequant_blas", challengers=("simt_4bit",))
    assert words in refused("crossover", "planted", *arguments)


def test_roofline_shows_failures_with_their_reason(plant, invoke):
    verdicts = {"simt_4bit": ("unsupported", "needs a GPU")}
    plant(**EXACT, failures=lambda cell: verdicts.get(cell.provider, ("oom", "no memory") if cell.M == 256 else None))
    out, err = invoke("roofline", "planted")
    failed = [line for line in out.splitlines() if "no memory" in line]
    assert len(failed) == 6
    assert all(" oom " in line for line in failed)
    assert "needs a GPU" not in out  # what a provider declines is told once
    assert "note: 54 unsupported cells of simt_4bit: needs a GPU\n" in err
