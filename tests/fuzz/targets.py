"""What is fuzzed: the files of each target as they should be, and the commands that read them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rooflens.cli.main import main
from rooflens.harness.tables import fields
from rooflens.shapes.columns import TUNING
from rooflens.shapes.csv_file import csv_text

from ..analysis.synthetic import write_run
from ..cli.tiny_runs import ON_CPU, rooflens, run_args, write_suite
from .property import Target

DATA = Path(__file__).parents[1] / "data"
PUBLISHED = [
    source
    for source in (*(DATA / "published").glob("*.csv"), *(DATA / "published" / "pasted").iterdir())
    if source.is_file() and source.stat().st_size < 10_000
]

TABLES = ("cells.csv", "samples.csv", "ceilings.csv", "telemetry.csv", "canary.csv")
SMALL: dict[str, Any] = {
    "shapes": (("m", "down", 2048, 8192), ("m", "k/v", 512, 2048), ("n", "o", 4096, 4096)),
    "Ms": (1, 4, 64),
    "providers": ("simt_4bit", "gemv_4bit", "dequant_blas", "blas"),
    "rounds": 3,
    "samples": 3,
    "telemetry": lambda cell, round_: [{"clock_hz": 1.98e9, "slowdown": "power_cap"}],
    "canary": [{"at": "2026-01-02T03:00:00Z", "process": 0, "gemm_s": 1e-3, "copy_s": 2e-3}],
}


def write_runs(folder: Path) -> None:
    """Write a run, and one to compare it with."""
    write_run(folder / "run", **SMALL, columns=_configured)
    write_run(folder / "other", **SMALL, columns=_configured, seed=1)


def _configured(cell: Any, round_: int) -> dict[str, Any]:
    return {"config": {"BLOCK_M": 16, "num_warps": 4}} if cell.provider == "simt_4bit" else {}


def write_resumable(folder: Path) -> None:
    """Measure a run that can be gone on with."""
    write_suite(folder)
    done = rooflens(folder, *run_args("dequant_blas", file=None), "--rounds", "1", "-a", "M=1")
    assert done.returncode == 0, done.stderr


def write_suites(folder: Path) -> None:
    """Write a suite of one's own, its shapes, and a table of configurations for it."""
    write_suite(folder)
    row = {
        "cell_id": "c0", "search": 0, "candidate": 0, "arch": "x86-64", "compute_units": 2, "op": "gemm", "pass": "fwd",
        "B": 1, "E": 1, "top_k": 1, "M": 1, "N": 48, "K": 128, "dtype": "fp32", "scheme": "nf4-g64",
        "provider": "dequant_blas", "cache": "warm", "config": {"BLOCK_N": 8}, "verdict": "passed", "time_s": 4e-6,
        "winner": True, "near_tie": False, "candidates": 1, "source": "s0",
    }  # fmt: skip
    (folder / "tuning.csv").write_text(csv_text(TUNING.names, [fields(TUNING, row)]))


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
    write_run(folder / "run", **SMALL)
    assert main(["dispatch", str(folder / "run"), "-o", str(folder)]) == 0


def write_devices(folder: Path) -> None:
    """Copy the table of devices."""
    (folder / "devices.csv").write_bytes((Path(__file__).parents[2] / "shapes" / "devices.csv").read_bytes())


def write_condition(folder: Path) -> None:
    """Write a run, and a condition to choose cells of it."""
    write_run(folder / "run", **SMALL)
    (folder / "condition.txt").write_text("M <= 16 and provider == 'simt_4bit' and not model.str.startswith('n')")


_IMPORTS = sorted(source.name for source in (DATA / "imports").glob("*.csv"))
_PUBLISHED = sorted(source.name for source in PUBLISHED)
_RUN = (
    "validate {}/run",
    "crossover {}/run",
    "dispatch {}/run",
    "roofline {}/run",
    "compare {}/other {}/run",
    "history {}/other {}/run",
)
_REPORTS = ("report {}/run", "report {}/run {}/other", "report {}/run --text -", "report {}/run --json -")
_DRY = f"run {{}}/tiny.toml {' '.join(ON_CPU)} --dry-run"
_RESUMED = "--rounds 1 -a M=1 --no-report --no-calibrate --resume -o {}/out"
_TABLES = [f"run/{name}" for name in TABLES]

TARGETS: tuple[tuple[Target, Callable[[Path], None]], ...] = (
    (Target("tables of a run", _TABLES, _RUN, 15), write_runs),
    (Target("run.json", ["run/run.json"], _RUN, 15), write_runs),
    (Target("report", ["run/run.json", *_TABLES], _REPORTS, 3), write_runs),
    (
        Target(
            "resume",
            ["out/run.json", "out/cells.csv", "out/samples.csv"],
            ["run --resume -o {}/out --dry-run", f"{_DRY} {_RESUMED}"],
            25,
        ),
        write_resumable,
    ),
    (
        Target(
            "suite",
            ["tiny.toml", "tiny.csv", "tuning.csv"],
            [_DRY, f"{_DRY} --tuned {{}}/tuning.csv", "list shapes {}/tiny.csv"],
            100,
        ),
        write_suites,
    ),
    (
        Target(
            "policy",
            ["dispatch.json", "weights.csv"],
            ["dispatch {}/run --against {}/dispatch.json --weights {}/weights.csv"],
            8,
        ),
        write_dispatch,
    ),
    (
        Target(
            "imported tables",
            [*_IMPORTS, "dispatch.csv"],
            [
                *(f"compare {{}}/{name} {{}}/{name}" for name in [*_IMPORTS, "dispatch.csv"]),
                "audit {}/tidy.csv --strict",
            ],
            100,
        ),
        write_tables,
    ),
    (Target("nvbench JSON", ["nvbench.json"], ["compare {}/nvbench.json {}/nvbench.json"], 15), write_tables),
    (
        Target(
            "published tables",
            _PUBLISHED,
            [f"audit {{}}/{name} --device MI300X --dtype bf16" for name in _PUBLISHED],
            40,
        ),
        write_tables,
    ),
    (Target("devices", ["devices.csv"], ["list devices --check {}/devices.csv"], 60), write_devices),
    (Target("conditions", ["condition.txt"], ["history {}/run --filter @condition.txt"], 10), write_condition),
)
