"""A tiny suite over misbehaving providers, run in real processes, and what is found in its folder."""

import csv
import subprocess
import sys
from pathlib import Path

FAULTY = Path(__file__).parents[1] / "harness" / "faulty_providers.py"

SUITE = """
name = "tiny"
shapes = "tiny.csv"
schemes = ["nf4-g64"]
dtypes = ["fp32"]
caches = ["warm"]
providers = ["dequant_blas"]
baseline = "dequant_blas"
challengers = ["dequant_blas"]
[axes]
M = [1, 2, 3]
[protocol]
rounds = 2
budget_s = 0.02
timeout_s = 20.0
"""


def write_suite(folder):
    (folder / "tiny.toml").write_text(SUITE)
    (folder / "tiny.csv").write_text("model,layer,N,K\ntiny,q,48,128\ntiny,v,32,96\n")
    return folder


def rooflens(place, *arguments, **options):
    command = [sys.executable, "-m", "rooflens.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300, **options)


def run_args(*providers, **options):
    flags = [part for name in providers for part in ("-p", name)]
    fixed = ["--device", "cpu", "--llc", "1MiB", "--no-report", "--no-calibrate", "--providers", FAULTY, "-o", "out"]
    return ["run", "tiny.toml", *fixed, *flags]


SLOW = ("--target-ci", "0.00001%", "--budget")
"""No round converges, so that each takes its whole budget."""


def read(place, name="cells.csv"):
    with (place / "out" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def verdicts(place):
    found = {}
    for row in read(place):
        found.setdefault((row["provider"], int(row["M"])), set()).add(row["verdict"])
    return found


def check_whole(place, cells, rounds=2):
    """Every cell has each round once, every passed unit its samples, and no sample is an orphan."""
    rows = read(place)
    units = [(row["cell_id"], row["round"]) for row in rows]
    assert len(units) == len(set(units))
    passed = [unit for unit, row in zip(units, rows, strict=True) if row["verdict"] == "passed"]
    assert len(passed) == cells * rounds
    samples = [(sample["cell_id"], sample["round"]) for sample in read(place, "samples.csv")]
    assert set(samples) == set(passed)
    assert sum(int(row["samples"]) for row in rows if row["samples"]) == len(samples)
