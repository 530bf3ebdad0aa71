"""What `rooflens dispatch` prints: policies with their regret, the rule of one, its worst cases, what it changes."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..reports.render.layout import wrap
from .shared.output import print_json
from .shared.tables import print_table, terminal_width

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.dispatch.policy import Policy, Rule
    from ..analysis.dispatch.provenance import Provenance
    from ..analysis.dispatch.regret import Score
    from ..analysis.dispatch.study import Study
    from ..analysis.statistics.arrays import Ints

VISIBLE = 0.0005
"""Luck of the best arms that is worth a line."""

WAYS = {"shape": "new shapes", "model": "new models", "round": "new rounds"}
"""Headers of the hold-outs."""


def show(study: "Study", policy: "Policy", facts: "Provenance", before: "Ints", against: str, rows: int) -> None:
    """Print it for a reader; remarks go to stderr."""
    table = study.timings
    device = " ".join(filter(None, (facts.device, f"({study.arch})" if study.arch else "")))
    _say(
        f"{facts.run} on {device}: {_count(len(table.cases), 'GEMM')}, {facts.cache}, {_count(table.rounds, 'round')}; "
        f"incumbent {table.incumbent}; weights: {facts.weights}"
    )
    ways = [way for way in WAYS if any(one.held_out.get(way) for one in study.scored)]
    print_table(
        ("policy", "mean", "p95", "worst", "within 3%", *(WAYS[way] for way in ways)),
        [
            (one.name, *_in_sample(one.in_sample), *(_cost(one.held_out.get(way)) for way in ways))
            for one in study.scored
        ],
        "regret, the time beyond that of the best arm: in the sample, and the mean on what the fit has not seen",
    )
    if study.flattered is not None and study.flattered >= VISIBLE:
        _say(
            f"picked by the other rounds, the fastest arm of each GEMM costs {_percent(study.flattered)} on a new one "
            "(oracle): smaller differences between policies there may be luck"
        )
    click.echo()
    _say(_why(study, policy))
    for line in _rules(policy):
        _say(line.lstrip(), "    " if line.startswith(" ") else "  ")
    _cases(_worst(study, policy), _WORST, f"most regret of {policy.name}", rows)
    changed = _changes(study, policy, before)
    share = f"{len(changed)} of {len(table.cases)} GEMMs"
    _cases(changed, _CHANGED, f"decisions that differ from {against}: {share}, most time saved first", rows)
    for note in study.notes:
        click.echo(f"note: {note}", err=True)


def print_as_json(study: "Study", policy: "Policy", facts: "Provenance", before: "Ints", against: str) -> None:
    """Print it for a program: regret and gain as differences of ln time."""
    import json

    from ..analysis.dispatch.emit_json import emit_json

    table = study.timings
    print_json(
        {
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
            "policy": json.loads(emit_json(policy, facts)),
            "worst": _worst(study, policy).to_dict("records"),
            "against": against,
            "changes": _changes(study, policy, before).to_dict("records"),
            "notes": study.notes,
        }
    )


def _say(text: str, indent: str = "") -> None:
    """Print a paragraph; where it is indented, its further lines are so by two more."""
    first, *further = wrap(text, terminal_width() - len(indent) - 2 * bool(indent))
    click.echo(indent + first)
    for line in further:
        click.echo(f"{indent}{'  ' * bool(indent)}{line}")


def _count(number: int, of: str) -> str:
    return f"{number} {of}{'s' * (number != 1)}"


def _percent(log: float) -> str:
    """Write a difference of ln time as the extra time that it is."""
    from ..reports.formatting import MINUS

    value = 100 * math.expm1(log)
    text = f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.1f}" if abs(value) >= 9.995 else f"{value:.2f}"
    return f"{'0.00' if text == '-0.00' else text}%".replace("-", MINUS)


def _cost(score: "Score | None") -> str:
    return _percent(score.mean) if score else ""


def _in_sample(score: "Score") -> tuple[str, ...]:
    from ..reports.formatting import share

    return (_percent(score.mean), _percent(score.p95), _percent(score.worst), share(score.near))


def _plain(study: "Study", score: "Score | None") -> dict[str, Any] | None:
    """Write a score with the case that is worst."""
    if score is None:
        return None
    case = study.timings.cases.iloc[score.worst_case]
    at = {name: case[name] for name in ("label", "op", "pass", "dtype", "scheme", "M")}
    return {**asdict(score), "worst_case": at}


def _why(study: "Study", policy: "Policy") -> str:
    """Say why this policy is shown, and how its entries came about."""
    counts = Counter(str(leaf.status) for leaf in policy.leaves)
    parts = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()) if status != "given")
    found = f"; its choices: {parts}" if parts else ""
    if policy.name != study.recommended:
        return f"{policy.name}, as asked (recommended: {study.recommended}){found}"
    where = f"on {WAYS[study.criterion]}" if study.criterion else "in the sample, because nothing could be held out"
    return f"{policy.name} is the simplest policy within 0.5% of the least regret {where}{found}"


def _rules(policy: "Policy") -> list[str]:
    """Write the rule of each setting, one line per path; settings with the same rule share it."""
    by_text: dict[tuple[str, ...], list[str]] = {}
    for (op, pass_, dtype, scheme), measured in policy.rules.items():
        name = ", ".join([*([op] if op != "gemm" else []), *([pass_] if pass_ != "fwd" else []), dtype, scheme])
        texts = _rule(measured.rule)
        if texts != [policy.incumbent]:
            texts.append(f"M > {measured.largest_M}: {policy.incumbent}")
        by_text.setdefault(tuple(texts), []).append(name)
    return [
        line for texts, names in by_text.items() for line in (f"{'; '.join(names)}:", *(f"  {one}" for one in texts))
    ]


def _rule(rule: "Rule") -> list[str]:
    from ..analysis.dispatch.policy import ShapeTable
    from ..analysis.dispatch.tree import describe

    if not isinstance(rule, ShapeTable):
        return describe(rule)
    entries = Counter(leaf.arm for rows in rule.rows.values() for _, leaf in rows)
    told = ", ".join(f"{arm} {count}" for arm, count in entries.most_common())
    rest = [f"other shapes, {path}" for path in describe(rule.otherwise)] if rule.otherwise else []
    return [f"{sum(entries.values())} rows of {len(rule.rows)} shapes: {told}", *rest]


def _worst(study: "Study", policy: "Policy") -> "pd.DataFrame":
    """List the cases with regret, the most first."""
    import numpy as np

    from ..analysis.dispatch.fit import oracle
    from ..analysis.dispatch.policy import choices
    from ..analysis.dispatch.regret import best, relative_time

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


def _changes(study: "Study", policy: "Policy", before: "Ints") -> "pd.DataFrame":
    from ..analysis.dispatch.changes import changes
    from ..analysis.dispatch.policy import choices

    return changes(study.timings, before, choices(policy, study.timings))


_WHERE = ("label", "op", "pass", "dtype", "scheme", "M")
_WORST = ("runs", "best", "regret")
_CHANGED = ("before", "after", "speedup", "interval", "saved")


def _cases(frame: "pd.DataFrame", columns: Sequence[str], title: str, rows: int) -> None:
    """Print the first rows of a list of cases; say how many more there are."""
    from ..reports import formatting

    if not rows or frame.empty:
        return
    click.echo()
    cells = []
    for row in frame.head(rows).to_dict("records"):
        told = {
            **row,
            "regret": _percent(row["regret"]) if "regret" in row else "",
            "speedup": formatting.ratio(row.get("speedup")),
            "interval": formatting.ratio_interval(row.get("speedup_low"), row.get("speedup_high")),
            "saved": _saved(row.get("saved_s")),
        }
        cells.append([told[name] for name in ("op", "pass", "dtype", "scheme", "label", "M", *columns)])
    more = len(frame) - len(cells)
    print_table(
        ("op", "pass", "dtype", "scheme", "shape", "M", *columns),
        cells,
        title + (f" (and {more} more: --rows)" if more else ""),
        once=("op", "pass", "dtype", "scheme", "before", "runs"),
        heading=("shape",),
    )


def _saved(seconds: float | None) -> str:
    """Write a saving of time; a loss has a minus sign."""
    from ..reports import formatting

    if seconds is None or not formatting.known(seconds):
        return ""
    return f"{formatting.MINUS if seconds < 0 else ''}{formatting.time(abs(seconds))}"
