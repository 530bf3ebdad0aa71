"""What `rooflens compare` prints: chapters of its report or all of it as JSON."""

from ...analysis.comparison.breakdown import compared, controls, distribution
from ...analysis.comparison.decide import Word
from ...analysis.comparison.effects import Effects, Status
from ...analysis.comparison.result import SUM, Result, rows_of
from ...analysis.comparison.suite import SuiteChange, by_pass
from ...reports.build import build_comparison
from ...reports.presets import Preset
from ...reports.sections.comparison import cases, suite
from ...reports.sections.comparison.movers import losses, movers
from ..shared.output import print_json
from ..shared.tables import print_chapters

_CHAPTERS = Preset("terminal", "", (suite.headline, suite.suite, movers, losses, cases.outcomes, cases.choices))
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
            "cases": rows_of(result.effects).to_dict("records"),
            "sums": rows_of(result.sums).to_dict("records") if result.sums is not None else None,
            "causes": result.causes.to_dict("records") if result.causes is not None else None,
            "withheld": result.withheld,
            "notes": result.notes,
        }
    )


def _suite_json(effects: Effects) -> dict[str, dict[str, SuiteChange]]:
    return {"cases": by_pass(effects)}
