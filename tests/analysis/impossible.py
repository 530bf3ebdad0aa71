"""A run in which some times are impossible, for tests that vary them and look at what else changes."""

from pathlib import Path

import pandas as pd
from rooflens.analysis.frames.load import RunData, load_run

from .synthetic import H200, PlantedCell, modelled_latency, write_run

SHAPES = tuple(("m", f"n{N}", N, 4096) for N in (2048, 2560, 3072, 3584, 4096, 4608, 5120, 5632, 6144))
MS = (1, 2, 4, 8, 16, 32)
PROVIDERS = ("simt_4bit", "gemv_4bit", "dequant_blas")
PLANTED = 5 + len(MS) + 2


def is_planted(cell: PlantedCell) -> bool:
    """Single cells of every kind: at the edge and inside of a sweep over M, and of one over N."""
    return (
        (cell.provider == "simt_4bit" and (cell.N, cell.M) in {(4096, 4), (2048, 1), (6144, 32), (3072, 2), (3072, 4)})
        or (cell.provider == "gemv_4bit" and cell.N == 4608)
        or (cell.provider == "dequant_blas" and (cell.N, cell.M) in {(5120, 8), (2560, 16)})
    )


def planted(folder: Path, seconds: float, scatter: float, day: int = 2, seed: int = 0) -> RunData:
    """Write a run in which some times are impossible: `seconds`, scattering by a factor of exp(scatter)."""
    honest = modelled_latency(H200)
    write_run(
        folder,
        shapes=SHAPES,
        Ms=MS,
        providers=PROVIDERS,
        challengers=("simt_4bit", "gemv_4bit"),
        rounds=4,
        samples=4,
        machine=H200,
        latency=lambda cell: seconds if is_planted(cell) else honest(cell),
        round_noise=lambda cell: scatter if is_planted(cell) else 0.01,
        seed=seed,
        manifest={"created_at": f"2026-01-0{day}T03:04:05Z", "id": f"r{day}"},
    )
    return load_run(folder)


def planted_twice(folder: Path) -> tuple[RunData, RunData]:
    """Return two runs that differ in impossible times alone."""
    return planted(folder / "a" / "run", 1e-7, 0.0), planted(folder / "b" / "run", 2e-9, 0.3)


def same(a: pd.DataFrame, b: pd.DataFrame, name: str) -> None:
    """Compare all rows that are not of an impossible cell."""
    frames = []
    for frame in (a, b):
        if "impossible" in frame and frame["impossible"].dtype == bool:
            frame = frame.loc[~frame["impossible"]]
        elif "bound_class" in frame:
            frame = frame.loc[frame["bound_class"] != "impossible"]
        frames.append(frame.reset_index(drop=True))
    pd.testing.assert_frame_equal(*frames, obj=name)
