"""What `rooflens dispatch` prints: policies with their regret, the rule of one, its worst cases, what it changes."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from ...analysis.statistics.arrays import Ints
from ...reports import formatting as fmt
from ...reports.listing import listing
from ...reports.model import Block, Remarks, Section, Table, Text
from .emit_json import plain
from .fit import oracle
from .policy import Policy, Rows, choices, ranges
from .provenance import Provenance
from .regret import Score, best, relative_time
from .study import Study, changes
from .timings import Shape

VISIBLE = 0.0005
"""Luck of the best arms that is worth a line."""

WAYS = {"shape": "new shapes", "model": "new models", "round": "new rounds"}
"""Headers of the hold-outs."""


def section(study: Study, policy: Policy, facts: Provenance, before: Ints, against: str, rows: int) -> Section:
    """Rank the policies, then show the rule of one, its worst cases and what it changes."""
    table = study.timings
    device = " ".join(filter(None, (facts.device, f"({study.arch})" if study.arch else "")))
    lead = (
        f"{facts.run} on {device}: {fmt.plural(len(table.cases), 'GEMM')}, {facts.cache}, "
        f"{fmt.plural(table.rounds, 'round')}; incumbent {table.incumbent}; weights: {facts.weights}"
    )
    ways = [way for way in WAYS if any(one.held_out.get(way) for one in study.scored)]
    ranking = listing(
        ("policy", "mean", "p95", "worst", "within 3%", *(WAYS[way] for way in ways)),
        [
            (one.name, *_in_sample(one.in_sample), *(_cost(one.held_out.get(way)) for way in ways))
            for one in study.scored
        ],
        "regret, the time lost to the best arm: in the sample, and the mean on what the fit has not seen",
    )
    blocks: list[Block] = [Text(lead), ranking]
    if study.flattered is not None and study.flattered >= VISIBLE:
        blocks.append(
            Text(
                f"picked by the other rounds, the fastest arm of each GEMM costs {_percent(study.flattered)} on a new "
                "one (oracle): smaller differences between policies there may be luck"
            )
        )
    rule = (Text(line.lstrip(), indent=4 if line.startswith(" ") else 2, hang=2) for line in _rules(policy))
    changed = _changes(study, policy, before)
    share = f"{len(changed)} of {len(table.cases)} GEMMs"
    title = f"decisions that differ from {against}: {share}, most time saved first"
    parts = (
        (Text(_why(study, policy)), *rule),
        _cases(_worst(study, policy), _WORST, f"most regret of {policy.name}", rows),
        _cases(changed, _CHANGED, title, rows),
        (Remarks(tuple(study.notes)),),
    )
    return Section("dispatch", "Dispatch", tuple(blocks), tuple(Section("part", "", part) for part in parts))


def record(study: Study, policy: Policy, facts: Provenance, before: Ints, against: str) -> dict[str, Any]:
    """Return what --json prints: regret and gain as differences of ln time."""
    table = study.timings
    return {
        "run": facts.run,
        "device": facts.device,
        "arch": study.arch,
        "arms": table.arms,
        "incumbent": table.incumbent,
        "cache": facts.cache,
        "gemms": len(table.cases),
        "rounds": table.rounds,
        "weights": facts.weights,
        "margin": facts.margin,
        "policies": [
            {
                "name": one.name,
                "in_sample": _plain(study, one.in_sample),
                "held_out": {way: _plain(study, score) for way, score in one.held_out.items()},
            }
            for one in study.scored
        ],
        "flattered": study.flattered,
        "recommended": study.recommended,
        "criterion": study.criterion or None,
        "policy": plain(policy, facts),
        "worst": _worst(study, policy).to_dict("records"),
        "against": against,
        "changes": _changes(study, policy, before).to_dict("records"),
        "notes": study.notes,
    }


def _percent(log: float) -> str:
    """Write a difference of ln time as the extra time that it is."""
    value = 100 * math.expm1(log)
    text = f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"
    return f"{'0.00' if text == '-0.00' else text}%".replace("-", fmt.MINUS)


def _cost(score: Score | None) -> str:
    return _percent(score.mean) if score else ""


def _in_sample(score: Score) -> tuple[str, ...]:
    return (_percent(score.mean), _percent(score.p95), _percent(score.worst), fmt.share(score.near))


def _plain(study: Study, score: Score | None) -> dict[str, Any] | None:
    if score is None:
        return None
    case = study.timings.cases.iloc[score.worst_case]
    at = {name: case[name] for name in ("label", "op", "pass", "dtype", "scheme", "M")}
    return {**asdict(score), "worst_case": at}


def _why(study: Study, policy: Policy) -> str:
    counts = Counter(str(entry.status) for entry in policy.entries)
    parts = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()) if status != "given")
    found = f"; its choices: {parts}" if parts else ""
    if policy.name != study.recommended:
        return f"{policy.name}, as asked (recommended: {study.recommended}){found}"
    where = f"on {WAYS[study.criterion]}" if study.criterion else "in the sample, because nothing could be held out"
    return f"{policy.name} is the simplest policy within 0.5% of the least regret {where}{found}"


def _rules(policy: Policy) -> list[str]:
    """Write the rule of each setting, one line per path; settings with the same rule share it."""
    by_text: dict[tuple[str, ...], list[str]] = {}
    for (op, pass_, dtype, scheme), rule in policy.rules.items():
        name = ", ".join([*([op] if op != "gemm" else []), *([pass_] if pass_ != "fwd" else []), dtype, scheme])
        texts = _rule(rule, policy.incumbent)
        by_text.setdefault(tuple(texts), []).append(name)
    return [
        line for texts, names in by_text.items() for line in (f"{'; '.join(names)}:", *(f"  {one}" for one in texts))
    ]


def _rule(rule: Mapping[Shape | None, Rows], incumbent: str) -> list[str]:
    if None not in rule:
        entries = Counter(entry.arm for rows in rule.values() for _, entry in rows)
        counts = ", ".join(f"{arm} {count}" for arm, count in entries.most_common())
        return [f"{sum(entries.values())} rows of {len(rule)} shapes: {counts}", f"other shapes, larger M: {incumbent}"]
    found = ranges(rule[None], incumbent)
    below = ["", *(f"{size} < " for size, _ in found)]
    told = [f"{low}M <= {size}: {arm}" for low, (size, arm) in zip(below, found, strict=False)]
    return [*told, f"M > {found[-1][0]}: {incumbent}"] if found else [incumbent]


def _worst(study: Study, policy: Policy) -> pd.DataFrame:
    table = study.timings
    chosen = choices(policy, table)
    regret = relative_time(table, chosen) - best(table)
    arms = np.array(table.arms, dtype=object)
    runs = np.where(np.isfinite(table.mean[np.arange(len(chosen)), chosen]), chosen, 0)
    found = table.cases[[*_WHERE]].assign(
        runs=arms[runs], best=arms[oracle(table)], regret=regret, weight=table.weights
    )
    shown = (regret > 0) & (table.weights > 0)
    return found.loc[shown].sort_values("regret", ascending=False, kind="stable").reset_index(drop=True)


def _changes(study: Study, policy: Policy, before: Ints) -> pd.DataFrame:
    return changes(study.timings, before, choices(policy, study.timings))


_WHERE = ("label", "op", "pass", "dtype", "scheme", "M")
_WORST = ("runs", "best", "regret")
_CHANGED = ("before", "after", "speedup", "interval", "saved")


def _cases(frame: pd.DataFrame, columns: Sequence[str], title: str, rows: int) -> tuple[Table, ...]:
    """List the first cases, and count the others; nothing without any."""
    if not rows or frame.empty:
        return ()
    cells = []
    for row in frame.head(rows).to_dict("records"):
        told = {
            **row,
            "regret": _percent(row["regret"]) if "regret" in row else "",
            "speedup": fmt.ratio(row.get("speedup")),
            "interval": fmt.ratio_interval(row.get("speedup_low"), row.get("speedup_high")),
            "saved": _saved(row.get("saved_s")),
        }
        cells.append([told[name] for name in ("op", "pass", "dtype", "scheme", "label", "M", *columns)])
    more = len(frame) - len(cells)
    table = listing(
        ("op", "pass", "dtype", "scheme", "shape", "M", *columns),
        cells,
        title + (f" (and {more} more: --rows)" if more else ""),
        once=("op", "pass", "dtype", "scheme", "before", "runs"),
        heading=("shape",),
    )
    return (table,)


def _saved(seconds: float | None) -> str:
    if seconds is None or not fmt.known(seconds):
        return ""
    return f"{fmt.MINUS if seconds < 0 else ''}{fmt.time(abs(seconds))}"
