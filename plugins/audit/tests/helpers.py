"""Audits of texts, in one line each."""

from pathlib import Path

from rooflens.plugins.audit.audit import audit
from rooflens.plugins.audit.reading.assumptions import Assumptions, find_device
from rooflens.plugins.audit.reading.column import Override
from rooflens.plugins.audit.reading.document import read_document

PUBLISHED = Path(__file__).parents[3] / "tests" / "data" / "published"


def setting(device="", **more):
    return Assumptions(find_device(device) if device else None, **more)


def audited(text, device="", name="text", columns=(), claims=(), **more):
    documents = [read_document(text.encode(), name)] if text else []
    return audit(documents, setting(device, **more), [Override.parse(one) for one in columns], claims)


def published(*names, device="", **more):
    documents = [read_document((PUBLISHED / name).read_bytes(), Path(name).name) for name in names]
    return audit(documents, setting(device, **more))


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
