"""Times shorter than the device allows are shown, and decide nothing, whichever side of a ratio they are on."""

import pytest
import rooflens
from rooflens.cli.main import main
from rooflens.cli.run.end_of_run import conclude

from ..analysis.synthetic import H200, write_run

SHAPES = (("m", "a", 4096, 4096), ("m", "b", 2048, 4096), ("m", "c", 1024, 4096))
MS = (1, 2, 4, 8, 16, 32)
PLANTED = {"shapes": SHAPES, "Ms": MS, "providers": ("simt_4bit", "dequant_blas"), "rounds": 5, "samples": 3}
PLANTED["machine"] = H200
FAST = 1e-7
"""Seconds: reading the smallest weight at the published bandwidth takes 5 times as long."""


def is_planted(cell):
    """The challenger up to M = 4, and the baseline at M = 32 of one shape: 10 of 36 cells, 10 of 18 pairs."""
    return cell.M <= 4 if cell.provider == "simt_4bit" else (cell.M, cell.layer) == (32, "a")


def latency(cell):
    """Seconds: where they are honest, the challenger takes twice as long as the baseline."""
    return FAST if is_planted(cell) else 4e-2 if cell.provider == "simt_4bit" else 2e-2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_run(tmp_path / "runs" / "planted", latency=latency, **PLANTED)


def test_the_end_of_a_run_says_what_it_leaves_out(folder, capsys):
    conclude(folder, complete=True, report=True, strict=False)
    told = capsys.readouterr()
    assert "best 0.50× " in told.out
    assert "excluded, faster than the device allows: 10 / 36 cells" in told.out
    assert told.err.startswith("note: 10 of 36 cells are faster than possible")


def test_sums_of_passes_say_how_many_they_leave_out(tmp_path, invoke):
    planted = {"shapes": tuple(("m", f"{name} {kind}", 4096, 4096) for name in "abc" for kind in ("fwd", "bwd"))}
    planted |= {"columns": lambda cell, _: dict(zip(("layer", "pass"), cell.layer.split(), strict=True))}
    planted |= {"latency": lambda cell: FAST if (cell.layer, cell.M) == ("b bwd", 8) else 1e-2}
    runs = [write_run(tmp_path / "runs" / str(seed), seed=seed, **(PLANTED | planted)) for seed in (1, 2)]
    said = "".join(invoke("compare", *map(str, runs)))
    assert set(rooflens.compare(*runs).sums.cases["word"]) == {"same"}
    assert f"2 of {3 * len(MS) * 2} sums of fwd+bwd are excluded: a time is faster than the device allows." in said


def test_a_comparison_gives_them_no_verdict(folder, tmp_path, capsys):
    def head(cell):
        return latency(cell) * (3 if is_planted(cell) else 1)

    other = write_run(tmp_path / "runs" / "head", latency=head, seed=1, **PLANTED)
    assert main(["compare", str(folder), str(other)]) == 0  # what is planted would be 3 times as slow
    out = " ".join(capsys.readouterr().out.split())
    assert "not compared 10 impossible" in out
    assert main(["compare", str(folder), str(other), "--strict"]) == 4
