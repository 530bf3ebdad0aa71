"""What `rooflens audit` shows: how each table was read, findings by rule, and the same as JSON and as a comment."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..reports.render.layout import wrap
from .shared.output import plain
from .shared.tables import terminal_width

if TYPE_CHECKING:
    from ..analysis.audit.audit import Audit
    from ..analysis.audit.evidence.context import Rule
    from ..analysis.audit.evidence.finding import Finding
    from ..analysis.audit.reading.annotated_table import Column, Sheet
    from ..analysis.audit.reading.assumptions import Setting

_INDENT = "    "


def print_audit(result: "Audit", setting: "Setting") -> None:
    """Print how the tables were read, one line per finding under its rule, and the closing line."""
    width = terminal_width()
    for line in (_against(setting), *map(_understood, result.sheets)):
        _echo(line, width)
    for rule, findings in _by_rule(result):
        click.echo()
        _echo(f"{rule.name}: {rule.summary}", width)
        for finding in findings:
            _echo(f"{_place(finding)} [{finding.severity}] {_whose(finding)}{finding.message}", width, "  ")
        for advice in dict.fromkeys(finding.advice for finding in findings):
            _echo(f"-> {advice}", width, "  ")
    click.echo()
    for line in _could_not_run(result):
        _echo(line, width)
    _echo(_closing(result), width)


def review_comment(result: "Audit", setting: "Setting") -> str:
    """Return GitHub markdown: a list per rule, and how the tables were read, folded."""
    from ..reports.render.markdown import LIMIT
    from ..reports.render.markdown_blocks import escape

    lines = [
        "## Audit of the printed numbers",
        "",
        f"{escape(_closing(result))}. {escape(_sentence(_against(setting)))}.",
        "",
    ]
    lines += ["<details><summary>How the tables were read</summary>", ""]
    lines += [f"- {escape(_understood(sheet))}" for sheet in result.sheets]
    lines += [f"- {escape(_sentence(line))}" for line in _could_not_run(result)]
    lines += ["", "</details>", ""]
    for rule, findings in _by_rule(result):
        lines += [f"### {rule.name}", "", f"{escape(_sentence(rule.summary))}.", ""]
        for finding in findings:
            text = f"{_whose(finding)}{finding.message}"
            lines.append(f"- **{finding.severity}**, {escape(_place(finding))}: {escape(text)}")
        advices = dict.fromkeys(finding.advice for finding in findings)
        lines += ["", *(f"*{escape(_sentence(advice))}.*" for advice in advices), ""]
    text = "\n".join(lines)
    if len(text) > LIMIT:
        text = (
            text[: LIMIT - 100].rsplit("\n", 1)[0] + "\n\n*The rest was left out for length: `--json` has all of it.*\n"
        )
    return text


def as_record(result: "Audit", setting: "Setting") -> dict[str, Any]:
    """Return what --json prints."""
    return {
        "device": setting.device.name if setting.device else None,
        "dtype": setting.dtype or None,
        "rows": result.rows,
        "tables": [
            {
                "file": sheet.titled.table.where,
                "title": sheet.titled.title,
                "line": sheet.titled.line,
                "rows": len(sheet),
                "m_is": sheet.m_is or None,
                "columns": [_column_record(column) for column in sheet.columns],
            }
            for sheet in result.sheets
        ],
        "findings": [plain(finding) for finding in result.findings],
        "not_checked": dict(result.skipped),
    }


def _column_record(column: "Column") -> dict[str, Any]:
    names = ("name", "role", "side", "pass_", "unit", "detail", "sides", "dtype", "unread")
    return {name.rstrip("_"): getattr(column, name) or None for name in names}


def _by_rule(result: "Audit") -> "Iterator[tuple[Rule, list[Finding]]]":
    from ..analysis.audit.rules.registry import RULES

    for rule in RULES:
        if found := [finding for finding in result.findings if finding.rule == rule.name]:
            yield rule, found


def _against(setting: "Setting") -> str:
    """Say what the numbers are compared with."""
    device = setting.device
    if device is None:
        return "no --device: rules that need its peaks are skipped"
    roof = setting.peak()
    peak = f"{roof[1]} {roof[0] / 1e12:.6g} TFLOPS dense" if roof else "no peak"
    how = "" if setting.dtype else ", its fastest type, as no --dtype is given"
    memory = f", memory {device.bandwidth_bytes_per_s / 1e9:.6g} GB/s" if device.bandwidth_bytes_per_s else ""
    return f"compared with {device.name}: {peak}{how}{memory} ({device.source.split(';')[0]})"


def _understood(sheet: "Sheet") -> str:
    """Say what the columns of a table were taken for."""
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
    if sheet.summaries:
        parts.append(f"sums up: {', '.join(one.statistic for one in sheet.summaries)}")
    rows = f"{len(sheet)} row{'s' * (len(sheet) != 1)}"
    return f"{sheet.titled.name}: {rows}; {'; '.join(parts) or 'no column was understood'}"


def _column(column: "Column") -> str:
    words = [column.pass_, column.side if column.role not in ("ratio", "id", "cases", "shape") else ""]
    words = [word for word in words if word and word.lower() not in column.name.lower()]
    what = " ".join([*words, str(column.role)])
    detail = column.sides or column.detail
    detail = f" ({detail})" if detail and detail != "aggregate" else ""
    return f"{column.name!r} {what}{detail}"


def _place(finding: "Finding") -> str:
    return f"{finding.where}:{finding.line}"


def _whose(finding: "Finding") -> str:
    return f"{finding.row}: " if finding.row else ""


def _could_not_run(result: "Audit") -> list[str]:
    """Say what the rules that had nothing to work on miss; rules that miss the same share a line."""
    rules: dict[str, list[str]] = {}
    for rule, missing in result.skipped.items():
        rules.setdefault(missing, []).append(rule)
    return [f"not checked: {', '.join(names)}; needs {missing}" for missing, names in rules.items()]


def _closing(result: "Audit") -> str:
    """Return the last line: rows, findings, and of which kind."""
    tables = len(result.sheets)
    counts = Counter(str(finding.severity) for finding in result.findings)
    kinds = ", ".join(f"{count} {name}" for name, count in counts.items())
    rows = f"{result.rows} row{'s' * (result.rows != 1)} in {tables} table{'s' * (tables != 1)}"
    return f"{rows}, {len(result.findings)} finding{'s' * (len(result.findings) != 1)}" + (
        f" ({kinds})" if kinds else ""
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _echo(text: str, width: int, indent: str = "") -> None:
    lines: Sequence[str] = wrap(text, width - len(indent) - len(_INDENT))
    for number, line in enumerate(lines):
        click.echo(indent + (_INDENT if number else "") + line)
