"""Which limit bounds a curve over M, and where that changes.

Cells of one shape, setting and provider, in the order of M, are cut into stretches of one bound class. A single cell
between two stretches of one class, at least one of which has two cells or more, is a flicker at the edge between two
limits: it joins them, and is counted. An impossible or unexplained cell is never taken for a flicker, and neither is a
cell at either end.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..statistics.arrays import Flags, Ints
from .bounds import SERIES, Bound, series_codes

_OUTLIERS = (Bound.UNEXPLAINED.value, Bound.IMPOSSIBLE.value)


def regimes(placed: pd.DataFrame) -> pd.DataFrame:
    """Return one row per stretch, curves in the order of `placed`, stretches in that of M.

    Columns: `SERIES`, role, series (number of the curve), bound_class, first_M, last_M, cells, merged (of them, those
    with another class), changes_after_M and changes_by_M: between these two measured M the stretch begins; NaN for the
    first one. Cells without a class are excluded.
    """
    cells = placed.loc[placed["bound_class"] != ""]
    code = series_codes(cells)
    order = np.lexsort((cells["M"].to_numpy(), code))
    cells, code = cells.iloc[order], code[order]
    own = cells["bound_class"].to_numpy(dtype=object)
    classes = _without_flickers(code, own)
    stretch = np.cumsum(_starts(code, classes)) - 1
    rows = cells[[*SERIES, "role"]].assign(series=code, bound_class=classes, stretch=stretch, merged=own != classes)
    rows = rows.assign(first_M=cells["M"], last_M=cells["M"], cells=1)
    how = dict.fromkeys((*SERIES, "role", "series", "bound_class", "first_M"), "first")
    found = rows.groupby("stretch", sort=True).agg(how | {"last_M": "last", "cells": "sum", "merged": "sum"})
    before = found.groupby("series")["last_M"].shift()
    return found.assign(changes_after_M=before, changes_by_M=found["first_M"].where(before.notna())).reset_index(
        drop=True
    )


def regime_texts(found: pd.DataFrame) -> pd.DataFrame:
    """Return one row per curve: `SERIES`, role, M_min, M_max, text ("launch to M=8, dram to 256, compute from 512")."""
    curves: dict[int, list[tuple[str, int, int]]] = {}
    for series, *stretch in found[["series", "bound_class", "first_M", "last_M"]].itertuples(index=False, name=None):
        curves.setdefault(series, []).append(tuple(stretch))
    first = found.drop_duplicates("series")
    spans = list(curves.values())
    return first[[*SERIES, "role"]].assign(
        M_min=[stretches[0][1] for stretches in spans],
        M_max=[stretches[-1][2] for stretches in spans],
        text=[_text(stretches) for stretches in spans],
    )


def _text(stretches: list[tuple[str, int, int]]) -> str:
    """Write the stretches (class, first M, last M) of one curve."""
    name, first, last = stretches[-1]
    if len(stretches) == 1:
        return f"{name} at M={first}" if first == last else f"{name} throughout"
    start, *inner = (f"{name} to {last}" for name, _, last in stretches[:-1])
    return ", ".join([start.replace(" to ", " to M="), *inner, f"{name} from {first}"])


def _starts(code: Ints, classes: NDArray[np.object_]) -> Flags:
    """True where a curve or a stretch of it begins."""
    starts = np.ones(len(code), dtype=bool)
    starts[1:] = (code[1:] != code[:-1]) | (classes[1:] != classes[:-1])
    return starts


def _without_flickers(code: Ints, classes: NDArray[np.object_]) -> NDArray[np.object_]:
    """Give single cells the class around them. Decided on the stretches as they are: no merger brings about another."""
    first = np.flatnonzero(_starts(code, classes))
    length = np.diff(np.append(first, len(code)))
    merged = classes.copy()
    inner = np.flatnonzero(length == 1)
    inner = inner[(inner > 0) & (inner < len(first) - 1)]
    at, before, after = first[inner], first[inner - 1], first[np.minimum(inner + 1, len(first) - 1)]
    flicker = (code[before] == code[at]) & (code[after] == code[at]) & (classes[before] == classes[after])
    flicker &= np.maximum(length[inner - 1], length[np.minimum(inner + 1, len(first) - 1)]) >= 2
    flicker &= ~np.isin(classes[at], _OUTLIERS)
    merged[at[flicker]] = classes[before[flicker]]
    return merged
