"""The page docs/columns.md, generated from the schema."""

from collections.abc import Sequence

from ...shapes.run_folder.columns import Table


def columns_page(tables: Sequence[Table]) -> str:
    """Render one markdown table per stored table; pure, so that a test can compare it with the page in docs/."""
    parts = [
        "# Columns of a run\n",
        "<!-- `make docs` generates this page from shapes/run_folder/columns.py: edit that file. -->\n",
        "A run folder holds these CSV files beside `run.json`. Values are in base units (seconds, bytes, FLOP);\n"
        "an unknown value is an empty field, never 0. A column marked \\* is never empty.\n",
    ]
    for table in tables:
        parts.append(f"## `{table.file}`\n")
        parts.append(f"{table.description[0].upper()}{table.description[1:]}.\n")
        lines = ["| column | kind | unit | better | description |", "|---|---|---|---|---|"]
        for column in table.columns:
            name = f"`{column.name}`" + (" \\*" if column.required else "")
            lines.append(f"| {name} | {column.kind} | {column.unit} | {column.better} | {_cell(column.description)} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    """Escape what would end a cell of a markdown table."""
    return text.replace("|", "\\|")
