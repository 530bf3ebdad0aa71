"""What went wrong in either version, and what was tried beyond measuring it, as far as the runs store it."""

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from ....analysis.comparison.evidence import costs
from ....analysis.comparison.result import OWN, Result
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Bullets, Section
from ..summary.tally import SKIPPED
from .words import SIDES, problems

MOST_ISSUES = 20
"""Issues that are listed; the CSV files of the runs have them all."""


def issues(result: Result) -> Section | None:
    """List failed, skipped, impossible and disturbed cases, then what was measured again, added and searched."""
    found = [text for side in SIDES for text in _issues(result.effects.cases, side)]
    listed = found[:MOST_ISSUES]
    if left := len(found) - len(listed):
        listed.append(f"{left} further issues are in cells.csv of the runs")
    items = (*listed, *_tried(result))
    return Section("compared-issues", "Issues found and what was tried", (Bullets(items),)) if items else None


def _issues(cases: pd.DataFrame, side: str) -> Iterator[str]:
    verdict, reason, disturbed = (f"{side}_{name}" for name in ("verdict", "reason", "disturbed"))
    lacking = cases[~cases[verdict].isin(["", Verdict.PASSED])]
    for (provider, word, why), group in lacking.groupby(["provider", verdict, reason], sort=False):
        outcome = "skipped" if word in SKIPPED else str(word).replace("_", " ")
        yield f"{side}, {provider}: {outcome} in {_counted(group)}: {why or 'no reason was stored'}"
    for provider, group in cases[cases[f"{side}_impossible"]].groupby("provider", sort=False):
        yield f"{side}, {provider!s}: refuted in {_counted(group)}: their times are shorter than the device allows"
    for provider, group in cases[cases[disturbed] != ""].groupby("provider", sort=False):
        yield f"{side}, {provider!s}: disturbed in {_counted(group)}, most often: {group[disturbed].mode().iloc[0]}"


def _counted(cases: pd.DataFrame) -> str:
    return f"{fmt.plural(len(cases), 'case')} ({fmt.plural(problems(cases), 'problem')})"


def _tried(result: Result) -> Iterator[str]:
    for arm, run in result.runs.items():
        failures: dict[tuple[str, str], Counter[str]] = {}
        for one in run.retried:
            failures.setdefault((one.provider, one.verdict.replace("_", " ")), Counter())[one.reason] += 1
        for (provider, verdict), reasons in failures.items():
            why = reasons.most_common(1)[0][0] or "no reason was stored"
            rounds = fmt.plural(reasons.total(), "round")
            yield f"{arm}, {provider}: {verdict} in {rounds}, measured again (--retry), most often: {why}"
        for added in run.manifest.refinements:
            state = "" if added.complete else ", not complete"
            yield f"{arm}: --refine {added.of} of {added.challenger} added {len(added.added)} M at single shapes{state}"
    found = costs(result.searches).values()
    for side in result.searches:
        count = sum(sides[side].searches for sides in found if side in sides)
        yield f"{side}: {fmt.plural(count, 'search', 'searches')} for configurations, listed under Cost of tuning"
    if result.null is not None:
        yield "a second copy of base was measured against base (--null-arm)"
    if OWN in result.runs:
        yield "head was measured with the configurations of base and with its own (--tune)"
