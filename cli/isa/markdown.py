"""The section on generated code for a pull request: what is claimed, what changed, and every binary, folded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...reports.render.markdown import LIMIT
from ...reports.render.markdown_blocks import escape
from .output import changes_table, claim_table, difference_lines, rows_table, summary_table

if TYPE_CHECKING:
    import pandas as pd

    from ...analysis.isa.diff import Difference


def section(
    frame: "pd.DataFrame",
    summary: "pd.DataFrame",
    claims: "Sequence[pd.DataFrame]",
    difference: "Difference | None",
) -> str:
    """Return the markdown. The folded table of all binaries is cut where the section would not fit into a comment."""
    compilers = ", ".join(sorted(set(frame["triton"]) - {""}))
    parts = [
        "## Generated code\n",
        f"Compiled ahead of time with Triton {escape(compilers or 'unknown')}, as a launch on the device would compile "
        "it (`rooflens isa`). Ranges go over all configurations; `k / n` counts binaries with such an instruction.\n",
        _table(*summary_table(summary)),
    ]
    for found in claims:
        holds, binaries = int(found["holds"].sum()), int(found["binaries"].sum())
        claim = f"`{found['claim'].iloc[0]}`" if len(found) else "The claim"
        parts += [f"{claim} holds for **{holds} / {binaries}** binaries.\n", _table(*claim_table(found))]
    if difference is not None:
        parts.append("### Changes\n")
        parts += [f"- {escape(line)}" for line in difference_lines(difference)] + [""]
        if len(difference.changes):
            parts.append(_table(*changes_table(difference)))
    text = "\n".join(parts)
    return text + _folded(frame, LIMIT - len(text))


def _folded(frame: "pd.DataFrame", room: int) -> str:
    """Return the table of all binaries as a folded block of at most `room` characters, "" when not one fits."""
    names, rows = rows_table(frame)
    while rows:
        left = len(frame) - len(rows)
        cut = f"\n{left} more rows left out for length.\n" if left else ""
        block = f"\n<details><summary>All binaries</summary>\n\n{_table(names, rows)}{cut}\n</details>\n"
        if len(block) <= room:
            return block
        rows = rows[: int(len(rows) * min(0.95, room / len(block)))]
    return ""


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *([escape(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
