"""Versions with a planted truth, as frames."""

import numpy as np
import pandas as pd
from rooflens.analysis.comparison.effects import Order, Versions
from rooflens.analysis.frames.coordinates import CASE, DETAILS

from .synthetic import COORDINATES

DEFAULTS = COORDINATES | {"M": 64, "provider": "mine"}


def versions(differences, times=100e-6, order=Order.INTERLEAVED, **columns):
    """Cases with ln(head/base) [cases, rounds]; NaN: no such round. Columns override one value, or one per case."""
    differences = np.atleast_2d(np.asarray(differences, dtype=float))
    count, rounds = differences.shape
    base = np.broadcast_to(np.asarray(times, dtype=float).reshape(-1, 1), (count, rounds))
    frame = pd.DataFrame([DEFAULTS | {"model": "model", "layer": f"layer {i}"} for i in range(count)])
    for side in ("base", "head"):
        frame[f"{side}_verdict"], frame[f"{side}_reason"], frame[f"{side}_impossible"] = "passed", "", False
        for name in DETAILS:
            frame[f"{side}_{name}"] = ""
    head = base * np.exp(differences)
    frame["base_time_s"], frame["head_time_s"] = np.median(base, axis=1), np.nanmedian(head, axis=1)
    frame["resolution_s"], frame["flops"] = 0.0, 1e9
    for name, value in columns.items():
        frame[name.removesuffix("_")] = value
    case, number = np.meshgrid(range(count), range(rounds), indexing="ij")
    long = pd.DataFrame({"case": case.ravel(), "round": number.ravel(), "base_s": base.ravel(), "head_s": head.ravel()})
    assert set(CASE) <= set(frame.columns)
    return Versions(frame, long[long["head_s"].notna()].reset_index(drop=True), order)
