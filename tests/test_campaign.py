"""The campaign knows what of its list is stored, and measures the rest."""

from dataclasses import asdict, replace

import campaign
import pandas as pd
import pytest
from campaign import CURRENT, EXPIRED, MISSING, Entry, jobs, known_cells, left_s, standing
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.summarize import summarize
from rooflens.harness.timing.samples import NOT_BLOCKED
from rooflens.kernels import registry
from rooflens.kernels.identity import code_of, identity
from rooflens.shapes.device import Device
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.run_folder.disturbance import Cause, Disturbance

from .analysis.synthetic import H200, write_run

ENTRY = Entry(
    "A", "planted", "a claim",
    "llm4bit --dtype bf16 --cache cold -a M=1,2,4,8,16 -p simt_4bit -p dequant_blas --rounds 2 --set budget_s=0.1",
    "N == 4096 and K == 4096",
)  # fmt: skip
PROTOCOL = Protocol(rounds=2, budget_s=0.1)
VERSIONS = {"torch": "2.11.0"}
DISTURBED = {"disturbed": "1 process of others computed on the device"}
UNBLOCKED = {"disturbed": str(Disturbance(Cause.SAMPLES, (3, 3), NOT_BLOCKED))}
"""A launch that the host takes longer to queue than the device to run: no further measurement changes that."""
OLD = {"identity": "0" * 16}


@pytest.fixture(scope="module")
def today():
    """Columns that the kernels of today give to the cells of a provider; each process lasts 4 s."""
    found = {}
    for name, provider in registry.load(("simt_4bit", "dequant_blas")).items():
        how = {"config": {}, "timer": "profiler", "cold_by": "flush"}
        launched = code_of(provider).launched([], provider.role, True, VERSIONS)
        stamp = identity(launched, how, Device(**H200.device))
        moment = {"started_at": "2026-01-02T03:00:00Z", "elapsed_s": 4.0}
        found[name] = how | moment | {"kernels": [], "identity": stamp}
    return found


@pytest.fixture
def plant(tmp_path, today):
    """Write a run of some M; `changes` are columns of simt_4bit by M."""

    def write(name, Ms, changes=(), **options):
        changes = {("simt_4bit", M): columns for M, columns in dict(changes).items()}
        manifest = {"protocol": asdict(PROTOCOL), "environment": VERSIONS} | options.pop("manifest", {})
        return write_run(
            tmp_path / name, suite="llm4bit", shapes=(("llama2-7b", "q/k/v/o", 4096, 4096),), Ms=Ms, rounds=2,
            providers=(*today,), machine=replace(H200, timer="profiler"), manifest=manifest,
            columns=lambda cell, _: today[cell.provider] | changes.get((cell.provider, cell.M), {}),
            **options,
        )  # fmt: skip

    return write


def look(*folders):
    return standing(ENTRY, known_cells(folders, {"llm4bit"}, "NVIDIA H200"))


def states(cells):
    return {M: tuple(rows.sort_values("provider")["state"]) for M, rows in cells.groupby("M")}


def test_what_is_missing_expired_disturbed_or_cut_short_is_measured_again_and_nothing_else(plant, tmp_path):
    cut_short = {"skip": lambda cell, round_: cell.M == 8 and round_ == 1}
    plant("first", (1, 2, 4, 8), {1: UNBLOCKED, 2: OLD, 4: DISTURBED}, **cut_short)
    plant("shorter", (16,), manifest={"protocol": asdict(replace(PROTOCOL, budget_s=0.05))})
    plant("another-device", (16,), manifest={"device": H200.device | {"name": "NVIDIA H100"}})
    cells = look(tmp_path)
    assert states(cells) == {
        1: (CURRENT, CURRENT),
        2: (CURRENT, EXPIRED),
        4: (CURRENT, MISSING),
        8: (MISSING, MISSING),
        16: (MISSING, MISSING),
    }
    first, shorter = 4.0 / (2 * 7), 4.0 / (2 * 2)  # seconds over rows of cells.csv, of both runs on this device
    assert cells["left_s"].sum() == pytest.approx(2 * 2 * first + 2 * (4 * first + 2 * shorter))  # M = 2; 4, 8 and 16
    assert left_s(cells) == pytest.approx(cells["left_s"].sum() + campaign.START_S)
    header, _, line = campaign.table({ENTRY: cells})
    assert header.startswith("tier A: 0 of 1 entries whole")
    assert line.split()[:5] == ["planted", "10", "4", "1", "5"]

    (job,) = jobs({ENTRY: cells}, tmp_path)
    turn = job.turn("cuda:1")
    assert turn.request.device == "cuda:1"
    providers = pd.DataFrame(turn.cells, columns=campaign.CELL).groupby("M")["provider"].agg(set)
    assert providers.to_dict() == {M: {"simt_4bit", "dequant_blas"} for M in (2, 4, 8, 16)}

    plant("planted.0", (2, 4, 8, 16))
    cells = look(tmp_path)
    assert jobs({ENTRY: cells}, tmp_path) == []
    campaign.store(ENTRY, cells, tmp_path / "kept")
    kept = load_run(tmp_path / "kept" / "planted")
    assert kept.missing_units == 0
    assert kept.manifest.command == ["rooflens", "merge", "-o", "planted", "0", "1"], "no folder of this machine"
    assert sorted(summarize(kept)["M"]) == sorted([1, 2, 4, 8, 16] * 2)
    assert {*summarize(kept)["disturbed"]} == {"", *UNBLOCKED.values()}
    assert states(look(tmp_path / "kept")) == dict.fromkeys((1, 2, 4, 8, 16), (CURRENT, CURRENT))
    assert set(look(tmp_path, tmp_path / "kept")["folder"]) == {str(tmp_path / "kept" / "planted")}  # stored once


def failing(provider, verdict):
    return {"failures": lambda cell: (verdict, "out of luck") if cell.provider == provider else None}


@pytest.mark.parametrize("final", ["unsupported", "oom"])
def test_failures(final, plant, tmp_path):
    plant("run", (1, 2, 4, 8, 16), {1: DISTURBED}, **failing("dequant_blas", final))
    cells = look(tmp_path)
    assert set(cells[cells["left_s"] > 0]["M"]) == {1}, "a failure that would come again is current"
    plant("second", (1,), **failing("dequant_blas", "crashed"))
    cells = look(tmp_path)
    assert states(cells)[1] == (CURRENT, CURRENT), "each in one of the runs"
    assert set(cells[cells["left_s"] > 0]["M"]) == {1}, "all providers of a problem come from one run"


def test_parts_are_whole_problems_of_a_few_minutes(tmp_path, monkeypatch):
    cells = look(tmp_path)  # nothing is stored
    assert cells["left_s"].tolist() == [2 * campaign.UNIT_S] * 10
    monkeypatch.setattr(campaign, "PART_S", 5 * 2 * campaign.UNIT_S)
    (tmp_path / "planted.0").mkdir()
    parts = jobs({ENTRY: cells}, tmp_path)
    assert [(one.folder.name, sorted(one.cells["M"])) for one in parts] == [
        ("planted.1", [1, 1, 2, 2, 4, 4]),
        ("planted.2", [8, 8, 16, 16]),
    ]


@pytest.mark.slow
def test_the_page_of_stored_runs_says_what_of_the_first_tiers_is_stored(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["campaign.py", "--tiers", "AB", "--on", "NVIDIA H200", "--folder", str(tmp_path)])
    campaign.main()
    assert capsys.readouterr().out in (campaign.ROOT / "docs/results/README.md").read_text("utf-8")


def test_every_entry_can_be_planned():
    nothing = known_cells([], set(), "NVIDIA H200")
    found = {entry.name: len(standing(entry, nothing)) for entry in campaign.ENTRIES}
    assert len(found) == len(campaign.ENTRIES), "names are distinct"
    assert min(found.values()) >= 24
