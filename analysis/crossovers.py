"""Crossovers of a whole run: one row per shape and storage."""

from typing import Any

import numpy as np
import pandas as pd

from ..shapes.errors import UsageError, unknown_name
from .coordinates import SETTING, SHAPE
from .crossover import DELTA, locate
from .speedup import speedups

CROSSOVER_COLUMNS = (
    *("challenger", "incumbent", *SHAPE, *SETTING),
    *("status", "crossover_M", "low_M", "high_M", "challenger_wins", "verified", "changes"),
    *("M_min", "M_max", "Ms", "log_ratios", "missing", "warnings"),
)


def crossovers(
    summary: pd.DataFrame, rounds: pd.DataFrame, challenger: str, incumbent: str, delta: float = DELTA
) -> pd.DataFrame:
    """Return one row per (shape, dtype, scheme, cache) that the challenger has cells in, in the order of `summary`.

    Columns, besides identity: the fields of `crossover.Crossing` (crossover_M NaN for None); M_min, M_max of the M that
    were used (NaN when none was); Ms and log_ratios, tuples of the same length: the M used and ln(t_challenger /
    t_incumbent) there; missing, the number of M at which a side failed or is missing; warnings, a tuple of texts.

    Raises UsageError when a provider has no cell in the run, or both are the same.
    """
    known = list(pd.unique(summary["provider"]))
    for name in (challenger, incumbent):
        if name not in known:
            raise unknown_name("provider of this run", name, known)
    if challenger == incumbent:
        raise UsageError(f"challenger and incumbent are both {challenger!r}: name two providers of {', '.join(known)}")
    two = summary.loc[summary["provider"].isin([challenger, incumbent])]
    ratios = speedups(two, rounds, incumbent)
    groups = ratios.groupby([*SHAPE, *SETTING], sort=False)
    rows = [
        dict(zip((*SHAPE, *SETTING), key, strict=True))
        | {"challenger": challenger, "incumbent": incumbent}
        | _crossing(cells.sort_values("M"), delta)
        for key, cells in groups
    ]
    return pd.DataFrame(rows, columns=list(CROSSOVER_COLUMNS))


def _crossing(cells: pd.DataFrame, delta: float) -> dict[str, Any]:
    used = cells.dropna(subset=["log_ratio"])
    y = -used["log_ratio"].to_numpy(dtype=np.float64)
    low, high = -np.log(used["ratio_high"]), -np.log(used["ratio_low"])
    found = locate(used["M"], y, low, high, used["log_se"], delta)
    lost = cells.loc[cells["log_ratio"].isna()]
    warnings = [*found.warnings, *_losses(lost), *_qualifications(used)]
    if len(used) == 1:
        warnings.append("measured at one M, and a crossover needs two: sweep M with the option -a")
    return {
        "status": found.status.value,
        "crossover_M": np.nan if found.crossover_M is None else found.crossover_M,
        "low_M": found.low_M,
        "high_M": found.high_M,
        "challenger_wins": found.challenger_wins,
        "verified": found.verified,
        "changes": found.changes,
        "M_min": float(used["M"].min()) if len(used) else np.nan,
        "M_max": float(used["M"].max()) if len(used) else np.nan,
        "Ms": tuple(int(size) for size in used["M"]),
        "log_ratios": tuple(float(value) for value in y),
        "missing": len(lost),
        "warnings": tuple(warnings),
    }


def _losses(lost: pd.DataFrame) -> list[str]:
    """Say why some M are not in, one text per reason."""
    by_reason = lost.groupby("reason", sort=False)["M"].agg(list)
    return [f"not at M={','.join(map(str, sizes))}: {reason}" for reason, sizes in by_reason.items()]


def _qualifications(used: pd.DataFrame) -> list[str]:
    """Say at which M a ratio is qualified, one text per note."""
    by_note = used.loc[used["note"] != ""].groupby("note", sort=False)["M"].agg(list)
    return [f"at M={','.join(map(str, sizes))}: {note}" for note, sizes in by_note.items()]
