"""What `rooflens compare` prints, chapters of its report or all of it as JSON, and its exit code."""

from typing import Any

from ...analysis.comparison.breakdown import compared, controls, distribution
from ...analysis.comparison.decide import Word
from ...analysis.comparison.effects import Effects, Status
from ...analysis.comparison.result import SUM, Result
from ...analysis.comparison.suite import SuiteChange, by_pass
from ...reports.build import build_comparison
from ...reports.presets import Preset
from ...reports.sections.comparison import cases, movers, suite
from ...reports.sections.comparison.losses import losses
from ...shapes.errors import CorrectnessError, IncompleteError, RegressionError, RooflensError
from ..shared.output import print_json
from ..shared.tables import print_chapters


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


_CASE_COLUMNS = (
    *("model", "layer", "op", "B", "E", "top_k", "M", "N", "K", "pass", "dtype", "scheme", "cache", "provider"),
    *("status", "word", "withheld", "effect", "low", "high", "p", "q", "smallest", "margin", "rounds"),
    *("base_gmean_s", "head_gmean_s", "base_time_s", "head_time_s"),
    *("base_verdict", "head_verdict", "base_reason", "head_reason"),
    *("base_config", "head_config", "base_dispatched", "head_dispatched", "base_disturbed", "head_disturbed"),
)


_CHAPTERS = Preset("terminal", "", (suite.headline, suite.suite, movers.movers, losses, cases.outcomes, cases.choices))
"""What a terminal shows of the report."""


def print_result(result: Result) -> None:
    """Print what changed, the cases that moved or broke, why, and what limits the verdicts."""
    print_chapters(build_comparison(result, _CHAPTERS))


def print_result_json(result: Result) -> None:
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


def _suite_json(effects: Effects) -> dict[str, dict[str, SuiteChange]]:
    return {"cases": by_pass(effects), "distinct GEMMs": by_pass(effects, unique=True)}


def _records(effects: Effects) -> list[dict[str, Any]]:
    rows = effects.cases[[*_CASE_COLUMNS]].to_dict("records")
    return [{str(key): value for key, value in row.items()} for row in rows]
