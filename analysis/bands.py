"""Run-to-run bands: between which ratios a speedup moved from round to round."""

import pandas as pd


def bands(ratios: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """Return low, high and rounds per cell_id: the least and the largest ratio of a common round, and their number.

    `ratios` comes from `speedup.speedups`, `rounds` from `summarize.round_medians`. A ratio is time(baseline) /
    time(provider) of the medians of one round; cells without a ratio, or without a common round, are left out.
    """
    known = ratios.dropna(subset=["ratio"])[["cell_id", "baseline_cell_id"]]
    medians = rounds[["cell_id", "round", "median_s"]]
    partner = medians.rename(columns={"cell_id": "baseline_cell_id", "median_s": "baseline_median_s"})
    paired = known.merge(medians, on="cell_id").merge(partner, on=["baseline_cell_id", "round"])
    paired = paired.assign(ratio=paired["baseline_median_s"] / paired["median_s"])
    return paired.groupby("cell_id", sort=False).agg(
        low=("ratio", "min"), high=("ratio", "max"), rounds=("ratio", "size")
    )
