"""All policies of a run, from the simplest to the most particular."""

from dataclasses import dataclass, field

import numpy as np

from ..statistics.arrays import Flags, Ints
from .evidence import MARGIN, Evidence, weigh_evidence
from .policy import Leaf, LeafStatus, MeasuredRule, Node, Policy, Rule, ShapeTable
from .timings import SHAPE, Setting, Shape, Timings, positions
from .tree import THRESHOLD, TreeShape, grow

ALWAYS, ONE_M, M_PER_SETTING, TREE, TABLE, TABLE_TREE = (
    *("always", "threshold", "thresholds", "tree", "table", "table-tree"),
)
"""Kinds of policies: always one arm; one limit in M for the whole arch; one per setting; a tree per setting; a table
per shape; and a table with the tree for shapes that are not in it."""

KINDS = (ALWAYS, ONE_M, M_PER_SETTING, TREE, TABLE, TABLE_TREE)
"""The simplest first."""


@dataclass(frozen=True, slots=True)
class Options:
    """How policies are fitted: what a gain must exceed (as a difference of ln time), and what trees may become."""

    margin: float = MARGIN
    tree: TreeShape = field(default_factory=TreeShape)


def kind_of(policy: Policy) -> str:
    """Kind of a policy that `fit` made, by its name."""
    return policy.name.partition(" ")[0]


def fit(timings: Timings, arch: str, options: Options = Options(), with_rows: bool = True) -> tuple[Policy, ...]:
    """Fit a policy of every kind; what `always` runs is no question of evidence.

    Without `with_rows`, tables stay empty: enough to predict shapes that they would not have in any case.
    A kind is excluded where it would be the same by definition as a simpler one: `thresholds` with one setting, and
    `threshold` where all cases have one M.
    """
    evidence = weigh_evidence(timings, options.margin)
    settings = positions(timings.cases)
    largest = {setting: int(timings.cases["M"].to_numpy()[cases].max()) for setting, cases in settings.items()}

    def policy(name: str, rules: dict[Setting, Rule]) -> Policy:
        measured = {setting: MeasuredRule(largest[setting], rule) for setting, rule in rules.items()}
        return Policy(name, arch, timings.incumbent, measured)

    def per_setting(shape: TreeShape) -> dict[Setting, Node]:
        return {setting: grow(timings, evidence, cases, shape, options.margin) for setting, cases in settings.items()}

    found = [policy(f"{ALWAYS} {arm}", dict.fromkeys(settings, Leaf(arm))) for arm in timings.arms]
    everywhere = np.arange(len(timings.cases))
    if timings.cases["M"].nunique() > 1:
        one: Rule = grow(timings, evidence, everywhere, THRESHOLD, options.margin)
        found.append(policy(ONE_M, dict.fromkeys(settings, one)))
        if len(settings) > 1:
            found.append(policy(M_PER_SETTING, dict(per_setting(THRESHOLD))))
    trees = per_setting(options.tree)
    rows = {
        setting: _rows(timings, evidence, cases, options.margin) if with_rows else {}
        for setting, cases in settings.items()
    }
    found.append(policy(TREE, dict(trees)))
    found.append(policy(TABLE, {setting: ShapeTable(rows[setting]) for setting in settings}))
    found.append(policy(TABLE_TREE, {setting: ShapeTable(rows[setting], trees[setting]) for setting in settings}))
    return tuple(found)


def oracle(timings: Timings) -> Ints:
    """The fastest arm of each case [C], by the rounds that are here."""
    return np.asarray(np.where(np.isfinite(timings.mean), timings.mean, np.inf).argmin(axis=1), dtype=np.int64)


def _rows(
    timings: Timings, evidence: Evidence, cases: Ints, margin: float
) -> dict[Shape, tuple[tuple[int, Leaf], ...]]:
    """One row per case, each decided by its own evidence."""
    columns = [timings.cases[name].to_numpy(dtype=np.int64)[cases].tolist() for name in (*SHAPE, "M")]
    found: dict[Shape, list[tuple[int, Leaf]]] = {}
    for b, e, top_k, n, k, m, leaf in zip(*columns, entries(timings, evidence, cases, margin), strict=True):
        found.setdefault((b, e, top_k, n, k), []).append((m, leaf))
    return {shape: tuple(sorted(rows, key=lambda row: row[0])) for shape, rows in found.items()}


def entries(timings: Timings, evidence: Evidence, cases: Ints, margin: float) -> list[Leaf]:
    """Decide each of these cases: the fastest arm that is engaged, or the incumbent."""
    gain = np.where(np.isfinite(evidence.gain[cases, 1:]), evidence.gain[cases, 1:], -np.inf)
    proven = evidence.engaged[cases, 1:]
    engaged: Flags = np.asarray(proven.any(axis=1))
    best = 1 + np.where(engaged, np.where(proven, gain, -np.inf).argmax(axis=1), gain.argmax(axis=1))
    slower = (evidence.high[cases, 1:] < -margin) | np.isneginf(gain)
    status = np.where(
        engaged, LeafStatus.ENGAGED, np.where(slower.all(axis=1), LeafStatus.INCUMBENT, LeafStatus.PARITY)
    )
    gains, lows = evidence.gain[cases, best].tolist(), evidence.low[cases, best].tolist()
    rows = zip(engaged.tolist(), best.tolist(), status.tolist(), gains, lows, strict=True)
    return [
        Leaf(
            timings.arms[arm] if runs else timings.incumbent, LeafStatus(word), timings.arms[arm], value, _known(low), 1
        )
        for runs, arm, word, value, low in rows
    ]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
