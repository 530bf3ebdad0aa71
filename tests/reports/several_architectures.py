"""Planted runs of one suite on two architectures, and the views that their report side by side is built from."""

from dataclasses import replace
from pathlib import Path

from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.reports.sections.architectures.subject import SweepInfo
from rooflens.reports.view import View

from .planted import synthetic

SWEEP = SweepInfo("several", "llm4bit-quick", "2026-01-02T03:04:05Z", "runs/several")

MI355X = replace(
    synthetic.H200,
    device=synthetic.H200.device
    | {"name": "AMD Instinct MI355X", "vendor": "AMD", "arch": "gfx950", "compute_units": 256, "uuid": "planted"}
    | {"llc_bytes": 256 << 20, "l2_bytes": 4 << 20, "memory_bytes": 288 << 30},
    spec_name="AMD Instinct MI355X",
    read=6.5e12,
    copy=5.5e12,
    launch=5e-6,
    peaks={"bf16": 1600e12, "fp16": 1600e12, "fp32": 100e12},
    spec_bandwidth=8e12,
    spec_peaks={"bf16": 2516e12, "fp16": 2516e12, "fp32": 157e12},
    simt_share=0.01,
)
"""Another data-centre GPU, on which decoding on the vector units costs more of the matrix rate."""

MACHINES = {"sm90": synthetic.H200, "gfx950": MI355X}

PROVIDERS = ("simt_4bit", "mma_4bit", "dequant_blas", "blas")


def lacking_on_gfx950(cell):
    """mma_4bit cannot run there, and one cell of the reference has no memory."""
    if cell.provider == "mma_4bit":
        return ("unsupported", "no matrix instruction for nf4-g64")
    return ("oom", "3 GiB asked") if (cell.provider, cell.layer, cell.M) == ("blas", "down", 256) else None


def write_architectures(folder: Path, **options: object) -> Path:
    """Write `folder`/sm90 and `folder`/gfx950; return `folder`."""
    usual = {"providers": PROVIDERS, "challengers": ("simt_4bit", "mma_4bit"), "rounds": 3}
    synthetic.write_run(folder / "sm90", machine=MACHINES["sm90"], **usual | options)
    synthetic.write_run(
        folder / "gfx950", machine=MACHINES["gfx950"], seed=1, failures=lacking_on_gfx950, **usual | options
    )
    return folder


def views_of(folder: Path, names: tuple[str, ...] = ("sm90", "gfx950")) -> list[tuple[str, View]]:
    """Load and analyse the runs of a folder."""
    runs = {name: load_run(folder / name) for name in names}
    return [(name, View(analyze(run))) for name, run in runs.items()]
