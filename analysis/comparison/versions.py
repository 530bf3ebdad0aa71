"""The two versions of a comparison: two stored runs, or two imported tables."""

import numpy as np
import pandas as pd

from ...shapes.errors import UsageError
from ...shapes.verdict import Verdict
from ..frames.coordinates import CASE, METHOD
from ..frames.load import RunData
from ..frames.notes import MIXED
from ..imports.entries import Imported
from ..run.summarize import round_medians, summarize
from .effects import Order, Versions, align


def from_runs(base: RunData, head: RunData, order: Order) -> Versions:
    """Align two runs. Raises UsageError when they have no case in common, or were not measured in the same way.

    Of interleaved runs, round i of one is paired with round i of the other, and both must have had the same operands.
    """
    sides = {"base": base, "head": head}
    summaries = {side: summarize(run) for side, run in sides.items()}
    cases = align(*(_settled(summaries[side], run) for side, run in sides.items()))
    if not ((cases["base_verdict"] != "") & (cases["head_verdict"] != "")).any():
        raise UsageError(
            f"{base.folder} and {head.folder} have no case in common (same shape, M, pass, dtype, scheme, cache and "
            "provider): compare runs of one suite"
        )
    _refuse_other_method(cases, base, head)
    numbered = cases[[*CASE]].rename_axis("case").reset_index()
    medians = []
    for side, run in sides.items():
        cells = summaries[side][["cell_id", *CASE]].merge(numbered, on=[*CASE])
        joined = round_medians(run).rename(columns={"median_s": f"{side}_s"}).merge(cells, on="cell_id")
        medians.append(joined[["case", "round", f"{side}_s"]])
    rounds = medians[0].merge(medians[1], on=["case", "round"], how="outer")
    if order is Order.INTERLEAVED:
        _refuse_other_operands(base, head)
    return Versions(cases, rounds, order)


def _settled(summary: pd.DataFrame, run: RunData) -> pd.DataFrame:
    """Mark what differs between the rounds of a case: it says neither "same" nor "another"."""
    passed = run.cells[run.cells["verdict"] == Verdict.PASSED].groupby("cell_id")
    found = summary.copy()
    for name in ("config", "artifact", "identity"):
        counts = passed[name].nunique()
        found[name] = found[name].mask(found["cell_id"].isin(counts.index[counts > 1]), MIXED)
    return found


def _refuse_other_method(cases: pd.DataFrame, base: RunData, head: RunData) -> None:
    """A time by another timer, or of another way to a cold cache, is another quantity."""
    both = (cases["base_time_s"] > 0) & (cases["head_time_s"] > 0)
    for name in METHOD[:2]:
        differs = both & (cases[f"base_{name}"] != cases[f"head_{name}"])
        if differs.any():
            first = cases[differs].iloc[0]
            raise UsageError(
                f"{name} is {first[f'base_{name}']} in {base.folder} and {first[f'head_{name}']} in {head.folder}: "
                "such times are not comparable; measure one of them again in the other's way"
            )
    kinds = [(run.device.name, run.device.arch) for run in (base, head)]
    if kinds[0] != kinds[1]:
        raise UsageError(f"{base.folder} is of {kinds[0][0]}, {head.folder} of {kinds[1][0]}: compare on one device")


def _refuse_other_operands(base: RunData, head: RunData) -> None:
    """Interleaved arms get the same operands bit for bit: their checksums must agree, round by round."""
    key = [*CASE, "round"]
    columns = [run.cells.loc[run.cells["operands"] != "", [*key, "operands"]] for run in (base, head)]
    joined = columns[0].merge(columns[1], on=key, suffixes=("_base", "_head"))
    differs = joined["operands_base"] != joined["operands_head"]
    if differs.any():
        row = joined[differs].iloc[0]
        raise UsageError(
            f"round {row['round']} of {row['provider']} {row['model']} {row['layer']} M={row['M']}: the arms had other "
            "operands, so their environments draw other random numbers: use the same torch in both"
        )


def devices_differ(base: RunData, head: RunData) -> bool:
    """Return whether the runs were on two devices of one kind."""
    return bool(base.device.uuid) and base.device.uuid != head.device.uuid


def rounds_of(versions: Versions) -> tuple[int, int]:
    """Least and most rounds that a case has in both versions; (0, 0) without any."""
    counts = versions.rounds.dropna(subset=["base_s", "head_s"]).groupby("case").size()
    return (int(counts.min()), int(counts.max())) if len(counts) else (0, 0)


def pair(base: Imported, head: Imported) -> Versions:
    """Join two tables case by case; each time is the only round of its version.

    Raises UsageError when they have no case in common, naming the column that keeps them apart if it is one.
    """
    frames = _by_device(*(table.frame.assign(impossible=False) for table in (base, head)))
    cases = align(*frames)
    both = (cases["base_verdict"] != "") & (cases["head_verdict"] != "")
    if not both.any():
        raise UsageError(f"the tables have no case in common: {_apart(*frames)}")
    rounds = pd.DataFrame(
        {
            "case": np.arange(len(cases)),
            "round": 0,
            "base_s": cases["base_time_s"].to_numpy(),
            "head_s": cases["head_time_s"].to_numpy(),
        }
    )
    return Versions(cases, rounds, Order.IMPORTED)


def _by_device(*frames: pd.DataFrame) -> list[pd.DataFrame]:
    """Let the device tell cases apart where a table has several: two tables of one each compare their devices."""
    if all(frame["device"].nunique() < 2 for frame in frames):
        return [*frames]
    named = [frame["device"].map(lambda device: f" ({device})" if device else "") for frame in frames]
    return [frame.assign(provider=frame["provider"] + name) for frame, name in zip(frames, named, strict=True)]


def _apart(base: pd.DataFrame, head: pd.DataFrame) -> str:
    for name in CASE:
        ours, theirs = set(base[name]), set(head[name])
        if not ours & theirs:
            return (
                f"{name} is {_some(ours)} in the base and {_some(theirs)} in the head; map it: --column {name}=COLUMN"
            )
    return "every single column has values in common, but no row has all of them; compare files of one suite"


def _some(values: set[object]) -> str:
    texts = sorted(str(value) for value in values)
    return ", ".join(texts[:3]) + (", ..." if len(texts) > 3 else "")
