"""Crossovers of a whole run: one row per shape and storage."""

from typing import Any

import numpy as np
import pandas as pd

from ...shapes.errors import UsageError, unknown_name
from ..frames.coordinates import COORDINATES, SETTING, SHAPE
from ..frames.speedup import speedups
from ..statistics.arrays import Flags, floats
from .curve import DELTA, CrossoverStatus, locate

CROSSOVER_COLUMNS = (
    *("challenger", "incumbent", *SHAPE, *SETTING),
    *("status", "crossover_M", "low_M", "high_M", "regions", "undecided"),
    *("M_min", "M_max", "Ms", "log_ratios", "missing", "refined", "warnings"),
)


def crossovers(
    summary: pd.DataFrame, rounds: pd.DataFrame, challenger: str, incumbent: str, delta: float = DELTA
) -> pd.DataFrame:
    """Return one row per (shape, dtype, scheme, cache) that the challenger has cells in, in the order of `summary`.

    Columns, besides identity: the fields of `curve.Crossing` (crossover_M NaN for None); M_min, M_max of the M that
    were used (NaN when none was); Ms and log_ratios, tuples of the same length: the M used and ln(t_challenger /
    t_incumbent) there; missing, the number of M at which a side failed or is missing; refined, the number of `Ms` that
    a refinement added; warnings, a tuple of texts. What was added for another pair of providers is excluded.

    Raises UsageError when a provider has no cell in the run, or both are the same.
    """
    known = list(pd.unique(summary["provider"]))
    for name in (challenger, incumbent):
        if name not in known:
            raise unknown_name("provider of this run", name, known)
    if challenger == incumbent:
        raise UsageError(f"challenger and incumbent are both {challenger!r}: name two providers of {', '.join(known)}")
    two = summary.loc[summary["provider"].isin([challenger, incumbent])]
    alone = ~two.duplicated([*COORDINATES], keep=False)
    ratios = speedups(two.loc[~(two["refined"] & alone)], rounds, incumbent)
    lacking = speedups(two.loc[~two["refined"] & alone & (two["provider"] == incumbent)], rounds, challenger)
    lone = lacking.merge(ratios[[*SHAPE, *SETTING]].drop_duplicates(), on=[*SHAPE, *SETTING])
    ratios = pd.concat([ratios, lone], ignore_index=True) if len(lone) else ratios
    ratios["refined"] = ratios["cell_id"].isin(two.loc[two["refined"], "cell_id"])
    rows = [
        dict(zip((*SHAPE, *SETTING), key, strict=True))
        | {"challenger": challenger, "incumbent": incumbent}
        | _crossing(cells.sort_values("M", kind="stable"), delta)
        for key, cells in ratios.groupby([*SHAPE, *SETTING], sort=False)
    ]
    return pd.DataFrame(rows, columns=list(CROSSOVER_COLUMNS))


def _crossing(cells: pd.DataFrame, delta: float) -> dict[str, Any]:
    """Find the crossover of one place, from its ratios by rising M; one that is NaN says why in its `reason`."""
    y, low, high = (-np.log(floats(cells, name)) for name in ("ratio", "ratio_high", "ratio_low"))
    used = ~np.isnan(y)
    sizes, y = cells["M"].to_numpy(dtype=np.int64)[used], y[used]
    found = locate(sizes, y, low[used], high[used], delta)
    warnings = [
        *_qualifications("not at", cells["reason"], cells["M"], ~used),
        *_qualifications("at", cells["note"], cells["M"], used & (cells["note"] != "").to_numpy()),
    ]
    if len(sizes) == 1:
        warnings.append("measured at one M, and a crossover needs two")
    if found.status is CrossoverStatus.UNDECIDED:
        tie = bool((np.abs(y) <= delta).all())
        warnings.append(f"within {delta:.0%} at every M: nothing to choose" if tie else "no winner is verified")
    fields = {name: getattr(found, name) for name in ("low_M", "high_M", "regions", "undecided")}
    return fields | {
        "status": found.status.value,
        "crossover_M": np.nan if found.crossover_M is None else found.crossover_M,
        "M_min": float(sizes[0]) if len(sizes) else np.nan,
        "M_max": float(sizes[-1]) if len(sizes) else np.nan,
        "Ms": tuple(sizes.tolist()),
        "log_ratios": tuple(y.tolist()),
        "missing": int((~used).sum()),
        "refined": int((cells["refined"] & used).sum()),
        "warnings": tuple(warnings),
    }


def _qualifications(where: str, texts: "pd.Series[str]", sizes: "pd.Series[int]", chosen: Flags) -> list[str]:
    """Write one line per text: why some of the sizes are missing, or what qualifies them."""
    alike = sizes[chosen].astype(str).groupby(texts[chosen], sort=False).agg(",".join)
    return [f"{where} M={these}: {text}" for text, these in alike.items()]
