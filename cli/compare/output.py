"""What `rooflens compare` prints, verdicts in a terminal or all of it as JSON, and its exit code."""

import math
from typing import TYPE_CHECKING, Any

import click

from ...analysis.comparison.breakdown import compared, controls, distribution, movers
from ...analysis.comparison.decide import Word
from ...analysis.comparison.effects import Effects, Status
from ...analysis.comparison.parts import parts
from ...analysis.comparison.result import SUM, Result
from ...analysis.comparison.suite import SuiteChange, by_pass
from ...analysis.frames.coordinates import is_sized, shape_label
from ...reports import formatting as fmt
from ...reports.sections.comparison.words import told
from ...shapes.errors import CorrectnessError, IncompleteError, RegressionError, RooflensError
from ..shared.output import print_json
from ..shared.tables import print_table

if TYPE_CHECKING:
    import pandas as pd

    from ...analysis.comparison.result import Result


def verdict(result: Result, complete: bool, strict: bool, unmeasured: str = "") -> RooflensError | None:
    """Return the error of the exit code: broken before slower before undecided; nothing to compare is an error.

    `unmeasured` says what could not be measured because devices are missing or were lost.
    """
    if broken := result.count_of(Status.BROKEN):
        return CorrectnessError(f"{broken} case{'s' * (broken > 1)} passed in base and no longer do in head")
    if slower := _counted(result, Word.SLOWER):
        return RegressionError(f"{slower} verified to be slower")
    if unmeasured:
        return IncompleteError(unmeasured)
    if not result.count_of(Status.COMPARED):
        return IncompleteError(f"nothing was compared: {result.commonest_reason()}")
    if not strict:
        return None
    if result.unverified is not None:
        return IncompleteError("tables have one value per case: nothing in them is verified")
    if not complete:
        return IncompleteError("the comparison is not complete")
    if missing := sum(map(result.count_of, (Status.REMOVED, Status.FAILED, Status.IMPOSSIBLE))):
        return IncompleteError(f"{missing} case{'s' * (missing > 1)} of base could not be compared: see the table")
    if result.no_result:
        return IncompleteError(f"no result: {result.no_result}")
    if undecided := _counted(result, Word.INCONCLUSIVE):
        changed = (result.effects.cases["withheld"] != "").any()
        why = "the device changed" if changed else "more --rounds would decide"
        return IncompleteError(f"{undecided} inconclusive: {why}")
    return None


def _counted(result: Result, word: Word) -> str:
    """Say how many cases and sums of passes have a verdict: "1 case is", "3 cases and 2 sums of fwd+bwd are"."""
    cases, sums = result.count(word), result.count_sums(word)
    parts = [f"{cases} case{'s' * (cases > 1)}"] * bool(cases) + [f"{sums} sum{'s' * (sums > 1)} of {SUM}"] * bool(sums)
    return f"{' and '.join(parts)} {'are' if cases + sums > 1 else 'is'}" if parts else ""


MOST_ROWS = 20

_CASE_COLUMNS = (
    *("model", "layer", "op", "B", "E", "top_k", "M", "N", "K", "pass", "dtype", "scheme", "cache", "provider"),
    *("status", "word", "withheld", "effect", "low", "high", "p", "q", "smallest", "margin", "rounds"),
    *("base_gmean_s", "head_gmean_s", "base_time_s", "head_time_s"),
    *("base_verdict", "head_verdict", "base_reason", "head_reason"),
    *("base_config", "head_config", "base_dispatched", "head_dispatched", "base_disturbed", "head_disturbed"),
)


def print_result(result: "Result") -> None:
    """Print the suite's change, the cases that moved or broke, and what limits the verdicts."""
    click.echo(f"base  {result.base.label}")
    click.echo(f"head  {result.head.label}")
    if result.no_result:
        click.echo(f"No result: {result.no_result}")
    for part in parts(result):
        click.echo(f"time of head over base, {told(result, part)}: {_means(part.change(), part.change(unique=True))}")
    if result.selection is not None:
        unique = by_pass(result.selection, unique=True)
        for name, found in by_pass(result.selection).items():
            click.echo(f"head with its own configurations over head with base's: {_means(found, unique[name])}")
    words = [f"{result.count(word)} {word}" for word in result.words]
    counted = {status: result.count_of(status) for status in Status if status is not Status.COMPARED}
    others = [f"{count} {status}" for status, count in counted.items() if count]
    click.echo(f"cases: {', '.join(words)}" + (f"; not compared: {', '.join(others)}" if others else ""))
    if result.sums is not None and result.unverified is None:
        click.echo(f"sums of {SUM}: {', '.join(f'{result.count_sums(word)} {word}' for word in result.words)}")
    _print_movers(result)
    _print_rows(result.moved_sums(), f"verified changes of {SUM}, the most certain first")
    _print_broken(result)
    _print_causes(result)
    for note in result.notes:
        click.echo(f"note: {note}", err=True)


def print_result_json(result: "Result") -> None:
    """Print everything as JSON."""
    print_json(
        {
            "base": result.base,
            "head": result.head,
            "order": result.order,
            "suite": _suite_json(result.effects),
            SUM: _suite_json(result.sums) if result.sums is not None else None,
            "selection": _suite_json(result.selection) if result.selection is not None else None,
            "null": _suite_json(result.null) if result.null is not None else None,
            "ranked": len(result.unverified.ranked) if result.unverified is not None else None,
            "verdicts": {word.value: result.count(word) for word in Word},
            "verdicts of sums": {word.value: result.count_sums(word) for word in Word} if result.sums else None,
            "statuses": {status.value: result.count_of(status) for status in Status},
            "distribution": {
                name: distribution(cases) for name, cases in compared(result.effects).groupby("pass", sort=False)
            },
            "controls": controls(result.effects),
            "cases": _records(result.effects),
            "sums": _records(result.sums) if result.sums is not None else None,
            "causes": result.causes.to_dict("records") if result.causes is not None else None,
            "withheld": result.withheld,
            "notes": result.notes,
        }
    )


def _means(found: SuiteChange | None, distinct: SuiteChange | None) -> str:
    """Write a geometric mean over the cases, and over distinct GEMMs where these are fewer."""
    if found is None or distinct is None:
        return "unknown"
    again = f" {fmt.change_interval(*found.rounds)}" if found.rounds else ""
    once = f"; {_mean(distinct)} over {distinct.cases} distinct GEMMs" * (distinct.cases != found.cases)
    proof = ", unproven" * found.unproven
    return f"{_mean(found)}{again} in the geometric mean of {fmt.plural(found.cases, 'case')}{once}{proof}"


def _mean(change: SuiteChange) -> str:
    """Write a geometric mean as a change of time; with ~ where it is unproven."""
    text = fmt.change(change.ratio, *(change.rounds or (None, None)))
    return fmt.unproven(text) if change.unproven else text


def _print_movers(result: "Result") -> None:
    found = movers(result.effects, len(result.effects.cases))
    called = found[found["word"].isin([Word.SLOWER.value, Word.FASTER.value])]
    title = "verified changes, the most certain first"
    if result.unverified is not None:
        title, called = "changes beyond what the tables exclude; none is verified", result.unverified.ranked
    elif called.empty:
        title, called = "none is verified to have changed; the largest differences", found.head(5)
    _print_rows(called, title)


def _print_rows(called: "pd.DataFrame", title: str) -> None:
    """Print a table of cases or sums and how they changed; nothing without any."""
    if called.empty:
        return
    shown = called.head(MOST_ROWS)
    click.echo()
    print_table(
        (
            *("case", "M", "pass", "dtype", "scheme", "cache", "provider"),
            *("base us", "head us", "change", "interval", "verdict"),
        ),
        [
            (
                shape_label(row), _rows(row), row["pass"], row["dtype"], row["scheme"], row["cache"], row["provider"],
                f"{row['base_gmean_s'] * 1e6:.2f}", f"{row['head_gmean_s'] * 1e6:.2f}", _change(row),
                fmt.effect_interval(row["low"], row["high"]),
                _word(row),
            )
            for row in shown.to_dict("records")
        ],
        title,
        once=("pass", "dtype", "scheme", "cache", "provider"),
        heading=("provider",),
    )  # fmt: skip
    if len(called) > len(shown):
        click.echo(f"... and {len(called) - len(shown)} more: --markdown or --json has all of them")


def _rows(row: Any) -> str:
    """M of a case; "" of one without sizes."""
    return str(row["M"]) if is_sized(row) else ""


def _change(row: Any) -> str:
    """Write the change of a case; that of a table has no interval by rounds."""
    if row["word"] == Word.UNVERIFIED:
        return fmt.effect(row["effect"])
    return fmt.effect(row["effect"], row["low"], row["high"])


def _word(row: Any) -> str:
    if row["word"] == Word.INCONCLUSIVE and not math.isnan(row["smallest"]):
        return f"inconclusive, would find {fmt.about(row['smallest'])}"
    return str(row["word"])


def _print_broken(result: "Result") -> None:
    cases = result.effects.cases
    broken = cases[cases["status"] == Status.BROKEN]
    if broken.empty:
        return
    click.echo()
    print_table(
        ("case", "M", "pass", "provider", "became", "reason"),
        [
            (shape_label(row), _rows(row), row["pass"], row["provider"], row["head_verdict"], row["head_reason"])
            for row in broken.head(MOST_ROWS).to_dict("records")
        ],
        "broken: passed in base",
        once=("pass", "provider", "became"),
        long=("reason",),
    )


def _print_causes(result: "Result") -> None:
    if result.causes is None:
        return
    click.echo()
    print_table(
        ("case", "M", "pass", "dtype", "scheme", "cache", "provider", "total", "code", "choice", "cause"),
        [
            (
                *(shape_label(row), _rows(row), row["pass"]),
                *(row[name] for name in ("dtype", "scheme", "cache", "provider")),
                *(
                    fmt.effect(row[name], row[f"{name}_low"], row[f"{name}_high"])
                    for name in ("total", "code", "choice")
                ),
                row["cause"],
            )
            for row in result.causes.to_dict("records")
        ],
        "why cases with another configuration changed: both versions ran both",
        once=("pass", "dtype", "scheme", "cache", "provider"),
        heading=("provider",),
    )


def _suite_json(effects: Effects) -> dict[str, dict[str, SuiteChange]]:
    return {"cases": by_pass(effects), "distinct GEMMs": by_pass(effects, unique=True)}


def _records(effects: Effects) -> list[dict[str, Any]]:
    rows = effects.cases[[*_CASE_COLUMNS]].to_dict("records")
    return [{str(key): value for key, value in row.items()} for row in rows]
