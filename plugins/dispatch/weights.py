"""How much each GEMM counts: from a histogram of M, which is what a service logs.

An M that was not measured counts as the smallest measured M at or above it, because kernels and tables pad M up; one
beyond the largest counts as the largest. Every shape (with its op, pass and types) weighs the same, however many M of
it were measured; its own weight is shared out over its M by the histogram.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...shapes.errors import UsageError, quote
from ...shapes.files import csv_file
from .timings import SETTING, Timings, grouped

COLUMNS = ("M", "weight")


def parse_histogram(content: bytes, where: str) -> dict[int, float]:
    """Read a CSV with the columns M and weight; rows of the same M add up.

    Raises UsageError with file and line. `where` names the file in errors.
    """
    found: dict[int, float] = {}
    for line, row in csv_file.rows(content, where, COLUMNS, way_out=f"write the header {','.join(COLUMNS)}, and rows"):
        at = f"{where} line {line}"
        try:
            size, weight = int(row["M"]), float(row["weight"])
        except ValueError:
            raise UsageError(f"{at}: {quote(row['M'])},{quote(row['weight'])} is not a whole M and a number") from None
        if size < 1 or weight < 0 or not math.isfinite(weight):
            raise UsageError(f"{at}: M must be 1 or more and the weight 0 or more, not {size} and {weight:g}")
        found[size] = found.get(size, 0.0) + weight
    if not sum(found.values()) > 0:
        raise UsageError(f"{where}: no row has a weight above 0")
    return found


def weigh(timings: Timings, histogram: Mapping[int, float]) -> Timings:
    """Give each case the weight that the histogram says; `notes` report what counts as another M."""
    sizes = np.array(sorted(histogram), dtype=np.int64)
    shares = np.array([histogram[size] for size in sizes.tolist()], dtype=np.float64)
    shares = shares / shares.sum()
    cases = timings.cases
    weights = np.zeros(len(cases))
    beyond = 0.0
    groups = grouped(cases, ("shape", *SETTING))
    for rows in groups:
        measured = cases["M"].to_numpy(dtype=np.int64)[rows]
        order = np.argsort(measured, kind="stable")
        place = np.searchsorted(measured[order], sizes)
        beyond += float(shares[place == len(rows)].sum())
        place = np.minimum(place, len(rows) - 1)
        np.add.at(weights, rows[order][place], shares)
    notes = timings.notes
    if beyond > 0:
        share = beyond / len(groups)
        notes += (f"{share:.0%} of the histogram's weight is at M above the largest measured, and counts as that",)
    return replace(timings, weights=weights / weights.sum(), notes=notes)
