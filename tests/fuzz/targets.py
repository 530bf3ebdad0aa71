"""What is fuzzed: the files of each target as they should be, and the commands that read them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rooflens.cli.main import commands, main
from rooflens.harness.storage.tables import fields
from rooflens.shapes.files.csv_file import csv_text
from rooflens.shapes.run_folder.columns import TUNING

from ..analysis.planted_isa import write_isa
from ..analysis.planted_searches import candidate
from ..analysis.run_files import compress
from ..analysis.synthetic import write_run, write_table
from ..cli.tiny_runs import ON_CPU, rooflens, run_args, write_suite
from ..harness.sharded import split
from .property import Target

DATA = Path(__file__).parents[1] / "data"
PUBLISHED = [source for source in (DATA / "published").glob("*.csv") if source.stat().st_size < 10_000]

TABLES = ("cells.csv", "samples.csv", "ceilings.csv", "telemetry.csv", "canary.csv", "tuning.csv")
SMALL: dict[str, Any] = {
    "shapes": (("m", "down", 2048, 8192), ("n", "o", 4096, 4096)),
    "Ms": (1, 64),
    "providers": ("simt_4bit", "dequant_blas", "blas"),
    "rounds": 2,
    "samples": 2,
    "telemetry": lambda cell, round_: [{"clock_hz": 1.98e9, "slowdown": "power_cap"}],
    "canary": [{"at": "2026-01-02T03:00:00Z", "process": 0, "gemm_s": 1e-3, "copy_s": 2e-3}],
}


SEARCHED = candidate(
    {"BLOCK_N": 8},
    arch="x86-64",
    compute_units=2,
    N=48,
    K=128,
    dtype="fp32",
    provider="dequant_blas",
    cache="warm",
    time_s=4e-6,
    winner=True,
)
"""A row of tuning.csv."""


def write_runs(folder: Path) -> None:
    """Write a run, and one to compare it with."""
    for seed, name in enumerate(("run", "other")):
        code = {"top": "/k", "commit": f"{seed}" * 40, "branch": "main", "subject": "Tiles", "dirty": False}
        request = {"suite": "tiny.toml", "files": ["/k/mine.py"], "axes": ["M=1"], "device": "cpu"}
        stated = {"repository": code, "request": request}
        write_run(folder / name, **SMALL, columns=_configured, seed=seed, manifest=stated)
        write_table(folder / name, TUNING, [SEARCHED])


def write_compressed(folder: Path) -> None:
    """Write a run whose tables are compressed."""
    write_runs(folder)
    compress(folder / "run")


def write_shards(folder: Path) -> None:
    """Write a run in two parts, to be merged."""
    write_run(folder / "whole", **SMALL)
    split(folder / "whole", folder, lambda row: row["model"])


def write_arms(folder: Path) -> None:
    """Write what a comparison of two commits leaves."""
    for seed, arm in enumerate(("base", "head")):
        write_run(folder / "both" / arm, **SMALL, seed=seed)
    state = {
        "repository": str(folder), "commits": {"base": "0" * 40, "head": "1" * 40}, "suite": "tiny", "files": ["k.py"],
        "options": ["-a", "M=1"], "rounds": 2, "setup": "", "suite_hash": "", "tables": {"base": "t"}, "only": "",
        "searches": {"base": 1}, "identity": {"base": {"title": "a"}}, "chunks": 0,
        "done": [[number, arm] for number in range(2) for arm in ("base", "head")],
    }  # fmt: skip
    (folder / "both" / "compare.json").write_text(json.dumps(state))


def write_compiled(folder: Path) -> None:
    """Write two tables of compiled kernels, and a condition on them."""
    for name, stores in (("head.csv", 0), ("base.csv", 4)):
        usual = {"specialization": {"a": "*fp32"}, "store_short": 4, "code": "c0"}
        write_isa(folder / name, usual, usual | {"M": 128, "code": "c1", "store_short": stores})
    (folder / "isa.condition").write_text("store_short == 0 and kernel.str.contains('k') or not vgprs > 128")


def write_suites(folder: Path) -> None:
    """Write a suite of one's own, a table of configurations for it, a run, and values of options."""
    write_suite(folder)
    (folder / "tuning.csv").write_text(csv_text(TUNING.names, [fields(TUNING, SEARCHED)]))
    write_run(folder / "run", **SMALL)
    for name, text in OPTIONS.items():
        (folder / name).write_text(text)


def _configured(cell: Any, round_: int) -> dict[str, Any]:
    return {"config": {"BLOCK_M": 16, "num_warps": 4}} if cell.provider == "simt_4bit" else {}


def write_resumable(folder: Path) -> None:
    """Measure a run that can be gone on with."""
    write_suite(folder)
    rooflens(folder, *run_args("dequant_blas", file=None), "--rounds", "1", "-a", "M=1")


def write_dispatch(folder: Path) -> None:
    """Write a run, a policy that was fitted to it, and a histogram of M."""
    write_run(folder / "run", **SMALL)
    assert main(["dispatch", str(folder / "run"), "-o", str(folder)]) == 0
    (folder / "weights.csv").write_text("M,weight\n1,5\n4,2.5\n64,1\n")


def write_tables(folder: Path) -> None:
    """Copy published tables, and those of other tools."""
    for source in (DATA / "imports").iterdir():
        if source.suffix in (".csv", ".json"):
            (folder / source.name).write_bytes(source.read_bytes())
    for source in PUBLISHED:
        (folder / source.name).write_bytes(source.read_bytes())
    write_dispatch(folder)


OPTIONS = {
    "axis.option": "M=1,2,4..64",
    "time.option": "0.5s",
    "percent.option": "1.5%",
    "settings.option": "timer=host,budget_s=0.5s,target_ci=1.5%,llc_bytes=256MiB",
    "scan.option": "N=4096..4224",
    "map.option": "time_ms='Latency (ms)',M=m,N=n,K=k,provider=name",
    "cells.condition": "M <= 16 and provider == 'simt_4bit' and not model.str.startswith('n')",
}
"""Values of options, by the files that hold them."""

_DRY = f"run {{}}/tiny.toml {' '.join(ON_CPU)} --dry-run"
_IMPORTS = [*sorted(source.name for source in (DATA / "imports").glob("*.csv")), "nvbench.json", "dispatch.csv"]
_PUBLISHED = sorted(source.name for source in PUBLISHED)
_RUN = (
    "validate {}/run",
    "crossover {}/run",
    "dispatch {}/run",
    "roofline {}/run",
    "roofline {}/run --gaps --pairs --ceilings",
    "camping {}/run",
    "compare {}/other {}/run",
    "history {}/other {}/run --html {}/page.html",
)
_QUICK_REPORTS = ("report {}/run -o text=-", "report {}/run -o json=-", "report {}/run -o digest=-")
_REPORTS = (*3 * _QUICK_REPORTS, "report {}/run", "report {}/run {}/other -o text=-")
"""Figures take seconds to draw: of ten reports one has them."""

_RESUMED = "--rounds 1 -a M=1 --no-report --no-calibrate --resume -o {}/out"
_TABLES = [f"run/{name}" for name in TABLES]
_BOTH = "{}/both/base {}/both/head"

_EVERY = (
    Target("tables of a run", write_runs, ["run/run.json", *_TABLES], _RUN, 30),
    Target(
        "compressed tables",
        write_compressed,
        [f"{name}.xz" for name in _TABLES],
        ["validate {}/run", "crossover {}/run"],
        10,
    ),
    Target("report", write_runs, ["run/run.json", *_TABLES], _REPORTS, 3),
    Target(
        "resume",
        write_resumable,
        ["out/run.json", "out/cells.csv", "out/samples.csv"],
        ["run --resume -o {}/out --dry-run", f"{_DRY} {_RESUMED}"],
        25,
    ),
    Target(
        "shards",
        write_shards,
        [f"{part}/{name}" for part in "mn" for name in ("run.json", "cells.csv", "samples.csv", "ceilings.csv")],
        ["merge {}/m {}/n -o {}/merged", "validate {}/m {}/n"],
        10,
    ),
    Target(
        "compare.json",
        write_arms,
        ["both/compare.json"],
        [f"compare {_BOTH}", f"history {_BOTH}", f"report {_BOTH} -o text=-", "validate {}/both/base"],
        10,
    ),
    Target(
        "compiled kernels",
        write_compiled,
        ["head.csv", "base.csv", "isa.condition"],
        [
            "isa {}/head.csv --rows",
            "isa {}/head.csv --diff {}/base.csv --markdown {}/isa.md",
            "isa {}/head.csv --diff {}/base.csv --json",
            "isa {}/head.csv --claim @isa.condition",
            "isa {}/head.csv --filter @isa.condition",
        ],
        30,
    ),
    Target(
        "suite",
        write_suites,
        ["tiny.toml", "tiny.csv", "tuning.csv"],
        [_DRY, f"{_DRY} --tuned {{}}/tuning.csv", "list shapes {}/tiny.csv"],
        100,
    ),
    Target(
        "policy",
        write_dispatch,
        ["dispatch.json", "weights.csv"],
        ["dispatch {}/run --against {}/dispatch.json --weights {}/weights.csv"],
        8,
    ),
    Target(
        "imported tables",
        write_tables,
        _IMPORTS,
        [*(f"compare {{}}/{name} {{}}/{name}" for name in _IMPORTS), "audit {}/tidy.csv --strict"],
        115,
    ),
    Target(
        "published tables",
        write_tables,
        _PUBLISHED,
        [f"audit {{}}/{name} --device MI300X --dtype bf16" for name in _PUBLISHED],
        40,
    ),
    Target(
        "conditions",
        write_suites,
        ["cells.condition"],
        [f"{_DRY} --filter @cells.condition", "history {}/run --filter @cells.condition"],
        30,
    ),
    Target(
        "options",
        write_suites,
        [name for name in OPTIONS if name.endswith(".option")],
        [
            f"{_DRY} -a @axis.option",
            f"{_DRY} --set @settings.option",
            f"{_DRY} --within @time.option",
            f"{_DRY} --scan @scan.option",
            "dispatch {}/run --margin @percent.option",
            "compare {}/tiny.csv {}/tiny.csv --column @map.option",
        ],
        30,
    ),
)


def _installed() -> Iterator[Target]:
    """Yield the targets with the commands that are there: without a plugin, its own are not."""
    known = commands()
    for target in _EVERY:
        lines = [line for line in target.commands if line.split()[0] in known]
        if lines:
            yield replace(target, commands=lines)


TARGETS = tuple(_installed())
