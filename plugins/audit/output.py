"""What `rooflens audit` shows: how each table was read, findings by rule, and the same as JSON and as a comment."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...analysis.imports.columns import AnnotatedColumn
from ...cli.shared.output import plain
from ...reports.formatting import plural
from ...reports.model import Section, Text
from ...reports.render.markdown import render_section
from .audit import Audit
from .evidence.assumptions import Assumptions
from .evidence.finding import Finding
from .evidence.rule import Rule
from .evidence.sheet import Sheet
from .rules.registry import RULES

HANG = 4
"""Columns by which the further lines of a paragraph hang."""


def section(result: Audit, setting: Assumptions) -> Section:
    """Say how the tables were read, then list the findings under their rules."""
    reading = (_against(setting, result.sheets), *map(_understood, result.sheets))
    rules = tuple(
        Section(
            rule.name,
            rule.name,
            (
                Text(f"{rule.name}: {rule.summary}", hang=HANG),
                *(Text(_finding(finding), indent=2, hang=HANG) for finding in found),
                *(Text(f"-> {advice}", indent=2, hang=HANG) for advice in dict.fromkeys(one.advice for one in found)),
            ),
        )
        for rule, found in _by_rule(result)
    )
    end = Section("end", "", tuple(Text(line, hang=HANG) for line in (*_could_not_run(result), closing(result))))
    how = Section("reading", "How the tables were read", tuple(Text(line, hang=HANG) for line in reading), folded=True)
    return Section("audit", "Audit of the printed numbers", (), (how, *rules, end))


def review_comment(result: Audit, setting: Assumptions) -> str:
    """Return it as GitHub markdown, beginning with what came of it."""
    return render_section(replace(section(result, setting), blocks=(Text(f"{closing(result)}."),)))


def _finding(finding: Finding) -> str:
    row = f"{finding.row}: " if finding.row else ""
    return f"{finding.where}:{finding.line} [{finding.severity}] {row}{finding.message}"


def as_record(result: Audit, setting: Assumptions) -> dict[str, Any]:
    """Return what --json prints."""
    return {
        "device": setting.device.name if setting.device else None,
        "dtype": setting.dtype or None,
        "rows": result.rows,
        "tables": [
            {
                "file": sheet.table.where,
                "title": sheet.table.title,
                "line": sheet.table.line,
                "rows": len(sheet),
                "notes": list(sheet.table.notes),
                "m_is": sheet.m_is or None,
                "columns": [_column_record(column) for column in sheet.columns],
            }
            for sheet in result.sheets
        ],
        "findings": [plain(finding) for finding in result.findings],
        "not_checked": dict(result.skipped),
    }


def _column_record(column: AnnotatedColumn) -> dict[str, Any]:
    names = ("name", "role", "side", "pass_", "unit", "detail", "sides", "dtype", "unread")
    return {name.rstrip("_"): getattr(column, name) or None for name in names}


def _by_rule(result: Audit) -> Iterator[tuple[Rule, list[Finding]]]:
    for rule in RULES:
        if found := [finding for finding in result.findings if finding.rule == rule.name]:
            yield rule, found


def _against(setting: Assumptions, sheets: Sequence[Sheet]) -> str:
    device = setting.device
    named = {one.name: None for sheet in sheets if len(sheet) and (one := sheet.setting_at(0).device)}
    if device is None and named:
        return f"compared with {', '.join(named)}, as the tables say"
    if device is None:
        return "no --device: rules that need its peaks are skipped"
    roof = setting.peak()
    peak = f"{roof[1]} {roof[0] / 1e12:.6g} TFLOPS dense" if roof else "no peak"
    how = "" if setting.dtype else ", its fastest type, as no --dtype is given"
    memory = f", memory {device.bandwidth_bytes_per_s / 1e9:.6g} GB/s" if device.bandwidth_bytes_per_s else ""
    return f"compared with {device.name}: {peak}{how}{memory} ({device.source.split(';')[0]})"


def _understood(sheet: Sheet) -> str:
    known = [_column(column) for column in sheet.columns if str(column.role) not in ("label", "not used", "size")]
    sizes = " ".join(column.detail for column in sheet.columns if str(column.role) == "size")
    unused = [column.name or "(no header)" for column in sheet.columns if str(column.role) == "not used"]
    names = [column.name or "(no header)" for column in sheet.columns if str(column.role) == "label"]
    parts = [f"sizes {sizes}"] if sizes else []
    parts += known
    if sheet.m_is:
        parts.append(f"M is {sheet.m_is.replace('_', ' ')}")
    if names:
        parts.append(f"names of rows: {', '.join(names)}")
    if unused:
        parts.append(f"not used: {', '.join(unused)}")
    if unread := [f"{column.unread} of {column.name!r}" for column in sheet.columns if column.unread]:
        parts.append(f"cells that are no number: {', '.join(unread)}")
    parts += sheet.table.notes
    return f"{sheet.table.name}: {plural(len(sheet), 'row')}; {'; '.join(parts) or 'no column was understood'}"


def _column(column: AnnotatedColumn) -> str:
    words = [column.pass_, column.side if column.role not in ("ratio", "id", "shape") else ""]
    words = [word for word in words if word and word.lower() not in column.name.lower()]
    what = " ".join([*words, str(column.role)])
    detail = column.sides or column.detail
    detail = f" ({detail})" if detail and detail != "aggregate" else ""
    return f"{column.name!r} {what}{detail}"


def _could_not_run(result: Audit) -> list[str]:
    """Say what the rules that had nothing to work on miss; rules that miss the same share a line."""
    rules: dict[str, list[str]] = {}
    for rule, missing in result.skipped.items():
        rules.setdefault(missing, []).append(rule)
    return [f"not checked: {', '.join(names)}; needs {missing}" for missing, names in rules.items()]


def closing(result: Audit) -> str:
    """Return the last line: how many rules had something to work on, rows, findings, and of which kind."""
    counts = Counter(str(finding.severity) for finding in result.findings)
    kinds = ", ".join(f"{count} {name}" for name, count in counts.items())
    tables = f"{plural(result.rows, 'row')} in {plural(len(result.sheets), 'table')}"
    ran = f"{len(RULES) - len(result.skipped)} of {len(RULES)} rules could run"
    return f"{ran} on {tables}, {plural(len(result.findings), 'finding')}" + (f" ({kinds})" if kinds else "")
