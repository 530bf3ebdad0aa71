"""Rounds of a run as one array over (GEMM, arm, round).

Rounds are paired: an arm's time is held against that of the incumbent in the same round, so that drift cancels, and a
factor on all times is nothing. The same GEMM under several models is one case: its rounds are averaged (in ln time), it
has one vote, and no copy of it can be learned from while another is predicted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pandas as pd

from ...analysis.frames.coordinates import COORDINATES, GEMM, shape_label
from ...analysis.frames.deciding import deciding
from ...analysis.frames.notes import MIXED
from ...analysis.frames.speedup import ALIKE
from ...analysis.statistics.arrays import Flags, Floats, Ints, floats, moments
from ...shapes.errors import UsageError, unknown_name

Setting: TypeAlias = tuple[str, str, str, str]
Shape: TypeAlias = tuple[int, int, int, int, int]

SETTING = ("op", "pass", "dtype", "scheme")
"""What a caller knows before any size; rules never mix them unless they say so."""

SHAPE = ("B", "E", "top_k", "N", "K")
"""Sizes without M: what a row of a table is found by, and what is held out together."""


@dataclass(frozen=True, slots=True, eq=False)
class Timings:
    """Times of A arms on C GEMMs of one cache state in R rounds.

    arms         names, the incumbent first: it is what runs where nothing else is shown to be better
    cases        one row per GEMM [C]: GEMM columns; shape (int, equal for equal SHAPE); label; models (a tuple)
    log_ratio    ln(t_arm / t_incumbent) [C, A, R] in nats; 0 for the incumbent, NaN where not both have the round
    step         half a step of coarse timers as a share of the time, both sides together [C, A]
    time_s       median seconds of one launch [C, A], NaN where unknown
    weights      what each case counts [C]; they sum to 1
    rules        providers that dispatch themselves: their log_ratio [C, R], and what they chose [C] ("" unknown)
    first_cells  position in `cells` of the first cell of (case, arm) [C, A], -1 for none
    cells        the summary that all of this was taken from
    notes        what was excluded, one line each
    """

    arms: tuple[str, ...]
    cases: pd.DataFrame
    log_ratio: Floats
    step: Floats
    time_s: Floats
    weights: Floats
    rules: dict[str, tuple[Floats, tuple[str, ...]]]
    first_cells: Ints
    cells: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def incumbent(self) -> str:
        """The arm that all others are held against."""
        return self.arms[0]

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return int(self.log_ratio.shape[2])

    @property
    def mean(self) -> Floats:
        """Mean over rounds of `log_ratio` [C, A]; NaN where an arm has no round."""
        return moments(self.log_ratio).mean

    def of_rounds(self, wanted: Ints) -> "Timings":
        """Keep these rounds, without `rules`."""
        return replace(self, log_ratio=self.log_ratio[:, :, wanted], rules={})

    def of_cases(self, wanted: Flags) -> "Timings":
        """Keep these cases, without `rules`; their weights are scaled to sum to 1 again."""
        weights = self.weights[wanted]
        return replace(
            self,
            cases=self.cases.loc[wanted].reset_index(drop=True),
            log_ratio=self.log_ratio[wanted],
            step=self.step[wanted],
            time_s=self.time_s[wanted],
            weights=weights / weights.sum() if weights.sum() > 0 else weights,
            rules={},
            first_cells=self.first_cells[wanted],
        )


def timings(
    summary: pd.DataFrame,
    rounds: pd.DataFrame,
    arms: Sequence[str],
    cache: str,
    rules: Sequence[str] = (),
) -> Timings:
    """Arrange `summarize` and `round_medians` of one run; `arms` are named with the incumbent first.

    A GEMM that the incumbent has no time of is excluded, and so is the time of an arm that was taken by another
    timer or in another way to a cold cache than the incumbent's, in none of its rounds, or that is shorter than the
    device allows; and an M that a refinement added for others than these arms. Raises UsageError for names without
    a cell, and when nothing is left.
    """

    known = list(pd.unique(summary["provider"]))
    for name in (*arms, *rules):
        if name not in known:
            raise unknown_name("provider of this run", name, known)
    if len(set(arms)) != len(arms) or len(arms) < 2:
        raise UsageError(f"nothing to choose from: name two providers or more of {', '.join(known)}")
    names = (*arms, *rules)
    notes = list[str]()
    here = summary.loc[(summary["cache"] == cache) & summary["provider"].isin(names)]
    here = _asked_alike(here, names, notes)
    if count := int(here["impossible"].sum()):
        notes.append(f"excluded, because they are faster than the device allows: {count} of {len(here)} cells")
    cells = deciding(here).reset_index(drop=True)
    place, places = _codes(cells, COORDINATES)
    column = _numbers_of(cells, names)
    own = np.full((places, len(names)), -1, dtype=np.int64)
    own[place, column] = np.arange(len(cells))
    own = _timed_alike(own, cells, notes)
    ratios = _ratios(own, cells, rounds)
    unpaired = (own >= 0) & (own[:, :1] >= 0) & ~np.isfinite(ratios).any(axis=2)
    own = _without(own, unpaired, "they have no round in common with the incumbent", notes)
    usable = own[:, 0] >= 0
    if not usable.any():
        raise UsageError(f"{arms[0]} has no {cache} time: name another with --incumbent, or another --cache")
    alone = usable & (own[:, 1 : len(arms)] < 0).all(axis=1)
    if (usable == alone).all():
        raise UsageError(f"no GEMM has a {cache} time of {arms[0]} and of one of {', '.join(arms[1:])}")
    if lost := int((~usable).sum()):
        notes.append(f"excluded, because {arms[0]} has no time: {lost} of {places} problems")
    if alone.any():
        notes.append(f"excluded, because {arms[0]} alone has a time: {int(alone.sum())} of {places} problems")
    own, ratios = own[usable & ~alone], ratios[usable & ~alone]
    first = np.asarray(own[:, 0])
    gemm, count = _codes(cells.iloc[first], GEMM)
    log_ratio = _mean_by(ratios, gemm, count)
    times = np.where(own >= 0, np.log(floats(cells, "time_s")[own]), np.nan)
    steps = np.where(own >= 0, (cells["resolution_s"] / cells["time_s"]).fillna(0).to_numpy(dtype=np.float64)[own], 0)
    # GEMMs keep the order of the summary: `_codes` numbers them by their first appearance.
    firsts = np.unique(gemm, return_index=True)[1]
    first_cells = np.full((count, len(arms)), -1, dtype=np.int64)
    for index in range(len(arms)):
        has = own[:, index] >= 0
        first_cells[gemm[has][::-1], index] = own[has, index][::-1]
    refined = cells["refined"].to_numpy(dtype=bool)[own[firsts, 0]]
    if refined.any():
        notes.append(
            f"{int(refined.sum())} of {count} GEMMs were added by a refinement: they share the weight of the M above"
        )
    cases = _cases(cells, first, gemm, firsts)
    words = cells["dispatched"].fillna("").astype(str).to_numpy()
    chosen = {
        name: tuple(words[cell] if cell >= 0 else "" for cell in own[firsts, len(arms) + index])
        for index, name in enumerate(rules)
    }
    return Timings(
        arms=tuple(arms),
        cases=cases,
        log_ratio=log_ratio[:, : len(arms)],
        step=_mean_by((steps + steps[:, :1]) / 2, gemm, count)[:, : len(arms)],
        time_s=np.exp(_mean_by(times, gemm, count))[:, : len(arms)],
        weights=shared_weights(cases["M"].to_numpy(dtype=np.int64), refined, grouped(cases, ("shape", *SETTING))),
        rules={name: (log_ratio[:, len(arms) + index], chosen[name]) for index, name in enumerate(rules)},
        first_cells=first_cells,
        cells=cells,
        notes=tuple(notes),
    )


def positions(cases: pd.DataFrame) -> dict[Setting, Ints]:
    """Positions of the cases of each setting, in the order of their first case."""
    found: dict[Setting, Ints] = {}
    for rows in grouped(cases, SETTING):
        op, pass_, dtype, scheme = (str(cases[name].iloc[rows[0]]) for name in SETTING)
        found[op, pass_, dtype, scheme] = rows
    return found


def keys(cases: pd.DataFrame) -> Iterator[tuple[Setting, Shape, int]]:
    """What a policy decides each case by."""
    settings = (cases[name].astype(str) for name in SETTING)
    sizes = cases[[*SHAPE, "M"]].to_numpy(dtype=np.int64).tolist()
    for op, pass_, dtype, scheme, (b, e, top_k, n, k, m) in zip(*settings, sizes, strict=True):
        yield (op, pass_, dtype, scheme), (b, e, top_k, n, k), m


def grouped(frame: pd.DataFrame, columns: Sequence[str]) -> list[Ints]:
    """Positions of rows that are equal in `columns`, group by group in the order of their first row."""
    codes, count = _codes(frame, columns)
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.searchsorted(codes[order], np.arange(1, count))) if count else []


def _codes(frame: pd.DataFrame, columns: Sequence[str]) -> tuple[Ints, int]:
    """Number the distinct rows of `columns` by first appearance: the number of each row, and how many there are."""
    groups = frame.groupby([*columns], sort=False, dropna=False)
    return np.asarray(groups.ngroup(), dtype=np.int64), groups.ngroups


def _numbers_of(cells: pd.DataFrame, names: Sequence[str]) -> Ints:
    """Position of the provider of each cell among `names`."""
    found = cells["provider"].map({name: index for index, name in enumerate(names)})
    return np.asarray(found.to_numpy(), dtype=np.int64)


def _asked_alike(cells: pd.DataFrame, names: Sequence[str], notes: list[str]) -> pd.DataFrame:
    """Drop the M that a refinement added without asking all of these."""
    place, places = _codes(cells, COORDINATES)
    added = np.zeros(places, dtype=bool)
    added[place[cells["refined"]]] = True
    asked = np.zeros((places, len(names)), dtype=bool)
    asked[place, _numbers_of(cells, names)] = True
    added &= ~asked.all(axis=1)
    if count := int(added.sum()):
        notes.append(f"excluded, because a refinement added them without all of these: {count} of {places} problems")
    return cells.loc[~added[place]]


def _timed_alike(own: Ints, cells: pd.DataFrame, notes: list[str]) -> Ints:
    """Drop cells that were not timed as the incumbent's was; `own` [places, names] indexes `cells`, -1 for none."""
    differ = np.zeros(own.shape, dtype=bool)
    for name in ALIKE:
        values, distinct = pd.factorize(cells[name])
        mixed = np.flatnonzero(np.asarray(distinct == MIXED))
        found = np.where(own >= 0, values[own], -1)
        differ |= (found != found[:, :1]) | np.isin(found, mixed)
    differ &= (own >= 0) & (own[:, :1] >= 0)
    return _without(own, differ, "they were timed in another way than the incumbent's", notes)


def _without(own: Ints, excluded: Flags, why: str, notes: list[str]) -> Ints:
    if count := int(excluded.sum()):
        notes.append(f"excluded, because {why}: {count} cells")
    return np.where(excluded, -1, own)


def _ratios(own: Ints, cells: pd.DataFrame, rounds: pd.DataFrame) -> Floats:
    """ln(t / t_incumbent) [places, names, R] in the rounds that both have."""
    position = pd.Index(cells["cell_id"]).get_indexer(pd.Index(rounds["cell_id"]))
    listed = position >= 0
    numbers, distinct = pd.factorize(rounds["round"].to_numpy()[listed], sort=True)
    logs = np.full((len(cells) + 1, len(distinct)), np.nan)  # the last row is that of no cell
    logs[position[listed], numbers] = np.log(floats(rounds, "median_s")[listed])
    times = logs[own]
    return np.asarray(times - times[:, :1], dtype=np.float64)


def _mean_by(values: Floats, group: Ints, count: int) -> Floats:
    """Mean over rows of equal `group` [count, ...], of what is known."""
    if count == len(values):
        return values  # every group is one row, in order
    known = np.isfinite(values)
    sums = np.zeros((count, *values.shape[1:]))
    counts = np.zeros_like(sums)
    np.add.at(sums, group, np.where(known, values, 0.0))
    np.add.at(counts, group, known)
    return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan), dtype=np.float64)


def _cases(cells: pd.DataFrame, first: Ints, gemm: Ints, firsts: Ints) -> pd.DataFrame:
    """Describe each GEMM; `first` has the cell of the incumbent at each place."""
    rows = cells.iloc[first[firsts]]
    cases = rows[[*GEMM]].reset_index(drop=True)
    cases["shape"] = _codes(cases, SHAPE)[0]
    labels = [shape_label(row) for row in rows[["model", "layer", "op", "B", "E", "N", "K"]].to_dict("records")]
    models: list[dict[str, None]] = [{} for _ in firsts]
    for case, model in zip(gemm.tolist(), cells["model"].to_numpy()[first].tolist(), strict=True):
        models[case][str(model)] = None
    cases["label"] = labels
    cases["models"] = [tuple(names) for names in models]
    return cases


def shared_weights(sizes: Ints, refined: Flags, groups: Iterable[Ints]) -> Floats:
    """Weights of cases, which sum to 1; `sizes` are their M, `groups` the positions of each shape and setting.

    Every swept M counts 1. It stands for all M above the next smaller swept one, because kernels and tables pad M up;
    what a refinement measured among these takes its part of that, by widths in log2 M.
    """
    weights = np.ones(len(sizes))
    for rows in groups:
        if refined[rows].any() and not refined[rows].all():
            weights[rows] = _shared(sizes[rows], refined[rows])
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _shared(sizes: Ints, refined: Flags) -> Floats:
    order = np.argsort(sizes, kind="stable")
    logs = np.log2(sizes[order].astype(np.float64))
    widths = np.diff(logs, prepend=logs[0] - 1)
    swept = np.flatnonzero(~refined[order])
    # beyond the last swept M there is none to pad up to: these share its weight
    stands_for = np.minimum(np.searchsorted(swept, np.arange(len(order))), len(swept) - 1)
    totals = np.bincount(stands_for, widths)
    found: Floats = np.empty(len(order))
    found[order] = widths / totals[stands_for]
    return found
