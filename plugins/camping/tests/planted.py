"""Placed cells with planted times, made without files: what `rooflens.plugins.camping.find` takes.

A machine reads 4.2 TB/s and launches in 2.5 us; the kernel needs 3 us, 0.2 us per row, and reads NF4 weights (0.5625
bytes each) at 2 TB/s. `expected` columns are those that `roofline.place` documents.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

UNITS = 132
"""Compute units of the machine."""


def usual(cells: pd.DataFrame) -> "pd.Series[float]":
    """Seconds per launch of a kernel that knows no camping."""
    return 3e-6 + 0.2e-6 * cells["M"] + cells["N"] * cells["K"] * 0.5625 / 2e12


def planted(
    sizes: Sequence[int],
    *,
    axis: str = "N",
    fixed: int = 4096,
    Ms: Sequence[int] = (1, 2, 4, 8, 16),
    providers: Sequence[str] = ("simt_4bit",),
    time: Callable[[pd.DataFrame], "pd.Series[float]"] = usual,
    factor: Callable[[pd.DataFrame, int], "pd.Series[float]"] = lambda cells, process: cells["M"] * 0 + 1,
    noise: float = 0.01,
    round_noise: float = 0.003,
    rounds: int = 3,
    processes: int = 1,
    geometry: Callable[[pd.DataFrame], dict[str, "pd.Series[float]"]] = lambda cells: {},
    config: Callable[[pd.DataFrame], "pd.Series[str]"] = lambda cells: cells["provider"],
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return (placed, rounds, cells) of a scan along `axis`.

    `noise` is the standard deviation of ln time per cell, `round_noise` per round of it; round r runs in process
    r % processes, which multiplies times by `factor`. `geometry` gives columns of the placed cells.
    """
    rng = np.random.default_rng(seed)
    grid = pd.MultiIndex.from_product([sizes, Ms, providers], names=["size", "M", "provider"]).to_frame(index=False)
    other = {"N": "K", "K": "N"}[axis]
    frame = pd.DataFrame({axis: grid["size"], other: fixed, "M": grid["M"], "provider": grid["provider"]})
    frame = frame.assign(
        cell_id=[f"c{number}" for number in range(len(frame))], op="gemm", B=1, E=1, top_k=1, model="m",
        layer="l " + axis + "=" + grid["size"].astype(str), dtype="bf16", scheme="nf4-g64", cache="cold",
        role="candidate", verdict="passed", timer="graph", cold_by="rotation", kernels="[]", dispatched="",
        disturbed="", impossible=False, config=config(frame), **{"pass": "fwd"},
    )  # fmt: skip
    frame["compulsory_bytes"] = frame["N"] * frame["K"] * 0.5625 + 2.0 * frame["M"] * (frame["N"] + frame["K"])
    frame["flops"] = 2 * frame["M"] * frame["N"] * frame["K"]
    frame["memory_time_s"] = frame["compulsory_bytes"] / 4.2e12
    frame["compute_time_s"] = frame["flops"] / 800e12
    frame["launch_time_s"] = 2.5e-6
    frame = frame.assign(**geometry(frame))
    true = time(frame).to_numpy(dtype=np.float64) * np.exp(rng.normal(0, noise, len(frame)))
    process = np.arange(rounds) % processes
    factors = np.stack([factor(frame, int(number)).to_numpy(dtype=np.float64) for number in process], axis=1)
    times = true[:, None] * factors * np.exp(rng.normal(0, round_noise, (len(frame), rounds)))
    frame["time_s"] = np.median(times, axis=1)
    frame["time_low_s"], frame["time_high_s"] = 0.997 * frame["time_s"], 1.003 * frame["time_s"]
    rows = pd.DataFrame(
        {
            "cell_id": np.repeat(frame["cell_id"].to_numpy(), rounds),
            "round": np.tile(np.arange(rounds), len(frame)),
            "process": np.tile(process, len(frame)),
        }
    )
    return frame, rows[["cell_id", "round"]].assign(median_s=times.ravel()), rows


def grid_of(tile: int, resident: int) -> Callable[[pd.DataFrame], dict[str, "pd.Series[float]"]]:
    """Columns of `roofline.place` for tiles of 16 rows and `tile` columns, `resident` workgroups per unit."""

    def columns(cells: pd.DataFrame) -> dict[str, "pd.Series[float]"]:
        tiles = np.ceil(cells["N"] / tile) * np.ceil(cells["M"] / 16)
        return {
            "workgroups": tiles,
            "waves": tiles / (UNITS * resident),
            "wave_share": (tiles / UNITS) / np.ceil(tiles / UNITS),
            "tile_factor": tiles * tile * 16 / (cells["N"] * cells["M"]),
        }

    return columns


def in_waves(tile: int, resident: int) -> Callable[[pd.DataFrame], "pd.Series[float]"]:
    """Seconds of a kernel whose every wave takes as long as a whole one."""

    def time(cells: pd.DataFrame) -> "pd.Series[float]":
        waves = np.ceil(grid_of(tile, resident)(cells)["waves"])
        return 3e-6 + cells["N"] * cells["K"] * 0.5625 / 4.2e12 + waves * tile * resident * cells["K"] * 1.5e-11

    return time
