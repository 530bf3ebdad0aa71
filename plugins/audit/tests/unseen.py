"""How the audit does on public tables that it was not run on before what is wrong with them was written down."""

import tomllib
from collections import Counter
from dataclasses import dataclass

from rooflens.shapes.errors import UsageError

from .helpers import PUBLISHED, audited

FIGURE = {
    "above-bandwidth",
    "above-peak",
    "contradictory-changes",
    "counts",
    "does-not-follow",
    "implausibly-slow",
    "order",
    "pattern",
    "percent-of-peak",
    "ratio-label",
}
"""Rules that name one wrong figure."""

SHOWN_BY = {
    "derived": FIGURE,
    "digits": FIGURE,
    "swap": FIGURE,
    "above peak": {"pattern", "above-peak", "above-bandwidth", "percent-of-peak", "does-not-follow"},
    "ratio": {"does-not-follow", "ratio-label", "pattern"},
    "inverted": {"does-not-follow", "ratio-label", "pattern"},
    "change": {"pattern", "does-not-follow", "ratio-label", "contradictory-changes"},
    "difference": {"pattern", "does-not-follow"},
    "rate": {"does-not-follow", "implausibly-slow", "percent-of-peak", "pattern"},
    "share": {"percent-of-peak", "does-not-follow", "pattern"},
    "order": {"order", "pattern"},
    "winner": {"pattern", "winner"},
    "total": {"pattern", "does-not-follow", "counts", "part-above-whole"},
    "prose": {"counts", "percent-of-peak", "does-not-follow"},
    "duplicate": {"pattern", "repeated-rows", "copied-numbers", "equal-times", "does-not-follow"},
    "unit": FIGURE,
}
"""Kind of a fault: the rules whose findings name it."""


@dataclass(frozen=True)
class Score:
    """Findings that are right and wrong; faults that were found and missed, as (source, kind or rule, line)."""

    right: list[tuple[str, str, int]]
    wrong: list[tuple[str, str, int]]
    found: list[tuple[str, str, int]]
    missed: list[tuple[str, str, int]]

    @property
    def precision(self):
        return len(self.right) / (len(self.right) + len(self.wrong))

    @property
    def recall(self):
        return len(self.found) / (len(self.found) + len(self.missed))

    @property
    def counts(self):
        """Right and all findings, found and all faults."""
        return (
            len(self.right),
            len(self.right) + len(self.wrong),
            len(self.found),
            len(self.found) + len(self.missed),
        )


def tables(name):
    return tomllib.loads((PUBLISHED / "unseen" / f"{name}.toml").read_text(encoding="utf-8"))["table"]


def knowable(name):
    """Number of faults that something in their text contradicts: no reader can find more."""
    faults = [fault for table in tables(name) for fault in (*table["faults"], *table.get("planted", []))]
    return sum(not fault.get("unknowable") for fault in faults)


def score(name):
    """Audit every table and every copy with a planted mistake.

    Of a copy only the mistake counts, and the findings that the table itself does not have.
    """
    total = Score([], [], [], [])
    for table in tables(name):
        text = table["text"].lstrip("\n")
        own = _findings(table, text)
        _judge(total, table, Counter(own), table["faults"])
        for mistake in table.get("planted", []):
            assert text.count(mistake["was"]) == 1, mistake
            copy = _findings(table, text.replace(mistake["was"], mistake["now"]))
            _judge(total, table, Counter(copy) - Counter(own), [mistake])
    return total


def _findings(table, text):
    """Return what is found in a text; in one without a table with a header, which is refused, nothing."""
    try:
        result = audited(text, table.get("device", ""), dtype=table.get("dtype", ""))
    except UsageError:
        return []
    return [(finding.rule, finding.line, finding.message) for finding in result.findings]


def _judge(total, table, findings, faults):
    source = table["source"]

    def shows(finding, fault):
        return finding[0] in SHOWN_BY[fault["kind"]] and finding[1] in fault["lines"]

    for finding in findings.elements():
        if any(shows(finding, fault) for fault in faults):
            total.right.append((source, *finding[:2]))
        elif finding[1] not in table.get("open", []):
            total.wrong.append((source, *finding[:2]))
    for fault in faults:
        told = any(shows(finding, fault) for finding in findings)
        (total.found if told else total.missed).append((source, fault["kind"], fault["lines"][0]))
