"""Crossovers of a whole run: one row per shape and storage."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...shapes.errors import UsageError, unknown_name
from ..frames.coordinates import COORDINATES, SETTING, SHAPE
from ..frames.speedup import speedups
from ..statistics.arrays import Flags, Floats, Ints, floats
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
    places = ratios.groupby([*SHAPE, *SETTING], sort=False).ngroup().to_numpy()
    order = np.lexsort((ratios["M"].to_numpy(), places))
    series = _Series.of(ratios.take(order), two)
    starts: list[int] = np.flatnonzero(np.diff(places[order], prepend=-1)).tolist()
    keys = ratios[[*SHAPE, *SETTING]].take(order[starts]).itertuples(index=False, name=None)
    rows = [
        dict(zip((*SHAPE, *SETTING), key, strict=True))
        | {"challenger": challenger, "incumbent": incumbent}
        | _crossing(series.part(begin, end), delta)
        for key, begin, end in zip(keys, starts, [*starts[1:], len(order)], strict=True)
    ]
    return pd.DataFrame(rows, columns=list(CROSSOVER_COLUMNS))


class _Series(NamedTuple):
    """What is read of the ratios of one place by rising M, or of many places one after another.

    y is ln(t_challenger / t_incumbent), NaN where a side failed or is missing (`reason` says so); refined: a refinement
    added that M; note: what qualifies the ratio.
    """

    M: Ints
    y: Floats
    low: Floats
    high: Floats
    refined: Flags
    reason: Sequence[str]
    note: Sequence[str]

    @classmethod
    def of(cls, ratios: pd.DataFrame, summary: pd.DataFrame) -> "_Series":
        added = set(summary.loc[summary["refined"], "cell_id"])
        y, low, high = (-np.log(floats(ratios, name)) for name in ("ratio", "ratio_high", "ratio_low"))
        sizes = ratios["M"].to_numpy(dtype=np.int64)
        refined = np.array([cell in added for cell in ratios["cell_id"]], dtype=bool)
        return cls(sizes, y, low, high, refined, ratios["reason"].tolist(), ratios["note"].tolist())

    def part(self, begin: int, end: int) -> "_Series":
        return _Series(*(column[begin:end] for column in self))  # type: ignore[arg-type]


def _crossing(cells: _Series, delta: float) -> dict[str, Any]:
    used = ~np.isnan(cells.y)
    sizes, y = cells.M[used], cells.y[used]
    found = locate(sizes, y, cells.low[used], cells.high[used], delta)
    warnings = [
        *_qualifications("not at", cells.reason, cells.M, ~used),
        *_qualifications("at", cells.note, cells.M, used & np.array([bool(note) for note in cells.note])),
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
        "refined": int((cells.refined & used).sum()),
        "warnings": tuple(warnings),
    }


def _qualifications(where: str, texts: Sequence[str], sizes: Ints, chosen: Flags) -> list[str]:
    """Write one line per text: why some of the sizes are missing, or what qualifies them."""
    found: dict[str, list[str]] = {}
    for index in np.flatnonzero(chosen).tolist():
        found.setdefault(texts[index], []).append(str(sizes[index]))
    return [f"{where} M={','.join(sizes)}: {text}" for text, sizes in found.items()]
