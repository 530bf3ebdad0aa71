"""`rooflens camping` on stored runs with planted campers."""

import json

import pytest

from tests.analysis.synthetic import H200

SCAN = tuple(("llama2-7b", f"down N={size}", size, 4096) for size in range(1024, 3137, 64))
UNITS = H200.device["compute_units"]


def usual(cell):
    return 4e-6 + 0.2e-6 * cell.M + cell.N * cell.K * 0.5625 / 2e12


def camping(cell):
    """simt_4bit stalls for 15 us at multiples of 512 up to M = 8; dequant_blas never does."""
    return usual(cell) + 15e-6 * (cell.N % 512 == 0 and cell.M <= 8 and cell.provider == "simt_4bit")


SMALL = {
    "shapes": SCAN, "Ms": (1, 4, 8, 16), "providers": ("simt_4bit", "dequant_blas"), "machine": H200, "rounds": 2,
    "samples": 5, "round_noise": 0.005, "sample_noise": 0.005, "latency": camping,
}  # fmt: skip


def test_campers_for_a_reader(plant, invoke):
    plant(**SMALL)
    out, err = invoke("camping", "planted")
    suspects, periods, scans, conclusion = out.split("\n\n")
    named = [line for line in suspects.splitlines() if line.startswith("llama2-7b down")]
    assert sorted(line.split()[2] for line in named) == ["N=1536", "N=2048", "N=2560", "N=3072"]
    assert all("simt_4bit" in line and " 1..8 " in line and "not verified" in line for line in named)
    assert "pad N 2048 to 2112" in suspects
    (period,) = [line for line in periods.splitlines() if line.startswith("simt_4bit")]
    assert " 512 " in period
    assert "1 KiB of a row of Y" in periods
    assert "pad N by 64" in periods
    assert [line.split()[0] for line in scans.splitlines()[-2:]] == ["simt_4bit", "dequant_blas"]
    assert "none" in scans.splitlines()[-1]
    assert "dequant_blas (fwd, bf16, nf4-g64, cold): found from 1." in conclusion
    assert "note: not verified: three worker processes have to show it" in err


def test_three_runs_verify(plant, invoke):
    for number in range(3):
        plant(f"run{number}", seed=number, **SMALL)
    out, err = invoke("camping", "run0", "run1", "run2", "-p", "simt_4bit")
    assert "not verified" not in out + err
    assert "shown in 3 of 3 processes" in out
    assert "dequant_blas" not in out
    plant("quiet", seed=9, **(SMALL | {"latency": usual}))
    found = json.loads(invoke("camping", "run0", "run1", "quiet", "--json").out)
    assert {row["reproduced"] for row in found["suspects"]} == {"no"}
    assert {(row["shown"], row["processes"]) for row in found["periods"]} == {(2, 3)}


def test_json_has_everything(plant, invoke):
    plant(**SMALL)
    found = json.loads(invoke("camping", "latest", "--json").out)
    assert list(found) == ["run", "suspects", "periods", "scans", "coverage", "sizes"]
    assert {row["N"] for row in found["suspects"]} == {1536, 2048, 2560, 3072}
    assert all(row["excess_s"] == pytest.approx(15e-6, rel=0.1) for row in found["suspects"])
    assert [(row["M"], row["period"]) for row in found["periods"]] == [(1, 512), (4, 512), (8, 512)]
    assert len(found["scans"]) == 8
    assert found["suspects"][0]["workgroups"] is None
    rows = [row for row in found["sizes"] if row["provider"] == "simt_4bit"]
    assert (len(rows), {row["axis"] for row in rows}) == (len(SCAN) * 4, {"N"})
    assert {row["size"] % 512 for row in rows if row["period"]} == {0}
    high = [row for row in rows if row["stands_out"]]
    assert len(high) == 12
    assert all(row["ratio"] > 1.5 and row["time_s"] > 15e-6 for row in high)


def test_nothing_found_says_what_would_have_been(plant, invoke):
    plant(**(SMALL | {"latency": usual, "Ms": (1, 4)}))
    out = invoke("camping", "planted").out
    assert "nothing found: no size stands out" in out
    assert "simt_4bit (fwd, bf16, nf4-g64, cold): found from 1.1" in out
    (line,) = [line for line in out.splitlines() if line.startswith("simt_4bit ") and "N, K" in line]
    assert " none " in line
    assert line.count("%") == 2


def test_a_run_that_is_no_scan_says_how_to_measure_one(plant, invoke):
    plant(rounds=1, samples=2, Ms=(1, 2))
    out = invoke("camping", "planted").out
    assert "no scan, so no periods" in out
    assert "rooflens run --scan" in out


def test_tables_keep_to_the_width(plant, invoke, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    plant(**SMALL)
    assert max(map(len, invoke("camping", "planted").out.splitlines())) <= 80


def test_wrong_arguments_are_usage_errors(plant, refused):
    plant(**(SMALL | {"Ms": (1,)}))
    plant("other", rounds=1, samples=2, Ms=(1, 2))
    for arguments, words in (
        (["planted", "-p", "simt"], "did you mean simt_4bit"),
        (["planted", "other"], "other has no cell of planted"),
        ([], "Missing argument"),
        (["planted", "--scan-csv"], "--json has the points under sizes"),
    ):
        assert words in refused("camping", *arguments)
