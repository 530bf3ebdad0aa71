"""A policy as a table in the shape of aiter's tuned CSVs (`shapes.aiter`), one row per measured GEMM, and more columns.

A row describes what the policy runs: `libtype`, `us`, `splitK`, `kernelName`, `tflops` and `bw` are of the chosen arm.
Added are

B                   batch, where any is above 1
E, top_k            experts, and experts per token, where any of either is above 1
use_challenger      1 where another arm than the incumbent runs
status              engaged, parity, incumbent or given (`policy.EntryStatus`)
incumbent, incumbent_us
best, speedup, speedup_low
                    the fastest arm besides the incumbent here, t_incumbent / t_best, and the lower end of its interval
run, device, cache, rounds, margin, policy, regret, held_out, sources
                    provenance, the same in every row

What is not known is an empty field.
"""

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np

from ...shapes.aiter import HEADER
from ...shapes.errors import UsageError
from ...shapes.files.csv_file import csv_text
from .evidence import Evidence, weigh_evidence
from .policy import Entry, Policy
from .provenance import Provenance
from .timings import Timings, keys

ADDED = ("use_challenger", "status", "incumbent", "incumbent_us", "best", "speedup", "speedup_low")

PROVENANCE = ("run", "device", "cache", "rounds", "margin", "policy", "regret", "held_out", "sources")


def refusal(timings: Timings) -> str:
    """Why the cases cannot be told apart in such a table, "" when they can."""
    for what, values in (("operations", timings.cases["op"]), ("passes", timings.cases["pass"])):
        if values.nunique() > 1:
            return f"a CSV of that shape does not distinguish the {what} {', '.join(values.unique())}"
    return ""


def emit_csv(policy: Policy, timings: Timings, provenance: Provenance) -> str:
    """Write the table. Raises UsageError where it could not tell cases apart."""
    if why := refusal(timings):
        raise UsageError(f"--emit csv: {why}; choose json or python")
    several = [name for names in (["B"], ["E", "top_k"]) for name in names if (timings.cases[names] > 1).any(axis=None)]
    header = [*HEADER[:2], *several, *HEADER[2:], *ADDED, *PROVENANCE]
    rows = []
    evidence = weigh_evidence(timings, provenance.margin)
    same = _same(provenance)
    for index, (record, key) in enumerate(zip(timings.cases.to_dict("records"), keys(timings.cases), strict=True)):
        case = {str(name): value for name, value in record.items()}
        found = case | _row(policy.entry(*key) or Entry(policy.incumbent), timings, evidence, index, case) | same
        rows.append([found.get(name) for name in header])
    return csv_text(header, rows)


def _same(provenance: Provenance) -> dict[str, Any]:
    """Values that are the same in every row."""
    stored = asdict(provenance)
    known = {name: value for name, value in provenance.held_out.items() if value is not None}
    return {name: stored[name] for name in PROVENANCE} | {
        "held_out": json.dumps(known),
        "sources": json.dumps(dict(provenance.sources)),
        "gfx": provenance.arch,
        "cu_num": "" if provenance.compute_units is None else provenance.compute_units,
    }


def _row(entry: Entry, timings: Timings, evidence: Evidence, index: int, case: dict[str, Any]) -> dict[str, Any]:
    """One GEMM: what runs there, and how it compares."""
    arm = timings.arms.index(entry.arm) if entry.arm in timings.arms else 0
    if np.isnan(timings.mean[index, arm]):
        arm = 0  # it does not take this problem
    gains = np.nan_to_num(evidence.gain[index, 1:], nan=-np.inf)
    best = 1 + int(gains.argmax())
    time_s = float(timings.time_s[index, arm])
    cell = timings.cells.iloc[timings.first_cells[index, arm]]
    config: dict[str, Any] = json.loads(cell["config"]) if cell["config"] else {}
    options = " ".join(f"{name}={value}" for name, value in sorted(config.items()))
    return {
        **{name: case[name] for name in ("M", "N", "K", "dtype")},
        "q_dtype_w": case["scheme"],
        "libtype": timings.arms[arm],
        "splitK": config.get("SPLIT_K", ""),
        "us": f"{time_s * 1e6:.6g}",
        "kernelName": f"{timings.arms[arm]} {options}".strip(),
        "tflops": f"{cell['flops'] / time_s / 1e12:.6g}",
        "bw": f"{cell['compulsory_bytes'] / time_s / 1e9:.6g}",
        "use_challenger": int(arm > 0),
        "status": str(entry.status),
        "incumbent": timings.incumbent,
        "incumbent_us": f"{timings.time_s[index, 0] * 1e6:.6g}",
        "best": timings.arms[best],
        "speedup": f"{math.exp(evidence.gain[index, best]):.6g}",
        "speedup_low": "" if np.isnan(low := evidence.low[index, best]) else f"{math.exp(low):.6g}",
    }
