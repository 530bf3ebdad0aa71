"""Audits of texts, in one line each."""

from pathlib import Path

from rooflens.analysis.imports.columns import Override
from rooflens.analysis.imports.devices import find_device
from rooflens.analysis.imports.text import tables_in
from rooflens.plugins.audit.audit import audit
from rooflens.plugins.audit.evidence.assumptions import Assumptions

PUBLISHED = Path(__file__).parents[3] / "tests" / "data" / "published"


def setting(device="", **more):
    return Assumptions(find_device(device) if device else None, **more)


def audited(text, device="", name="text", columns=(), **more):
    return audit(tables_in(text.encode(), name), setting(device, **more), [Override.parse(one) for one in columns])


def published(*names, device="", **more):
    tables = [table for name in names for table in tables_in((PUBLISHED / name).read_bytes(), name)]
    return audit(tables, setting(device, **more))


def table(header, *rows):
    """Markdown, from lines of cells with | between them."""
    lines = [header, "|".join(["---"] * (header.count("|") + 1)), *rows]
    return "".join(f"| {line} |\n" for line in lines)


def rules(result):
    return {finding.rule for finding in result.findings}


def found(result, rule):
    return [finding for finding in result.findings if finding.rule == rule]


def lines(result, rule):
    return [finding.line for finding in found(result, rule)]


def check_gap(text, right, wrong, *at, rule="does-not-follow"):
    """A text has nothing wrong with `right` in its gap; with `wrong`, the rule speaks of the lines `at`."""
    assert not audited(text.format(right)).findings
    assert lines(audited(text.format(wrong)), rule) == [*at]
