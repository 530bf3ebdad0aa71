"""The page docs/columns.md, generated from the schema."""

from collections.abc import Sequence

from ...shapes.files.record import documented
from ...shapes.run_folder.columns import TableSchema
from ...shapes.run_folder.columns_computed import COMPUTED
from ...shapes.run_folder.manifest import COMPARISON, MANIFEST, ComparisonState, Manifest


def columns_page(tables: Sequence[TableSchema]) -> str:
    """Render one markdown table per stored table and JSON file; pure, so that a test can compare it with the page."""
    parts = [
        "# Columns of a run\n",
        "<!-- `make docs` generates this page from columns*.py and manifest.py in shapes/run_folder/: edit them. -->\n",
        "A run folder holds these CSV files beside `run.json`. Values are in base units (seconds, bytes, FLOP);\n"
        "an unknown value is an empty field, never 0. A column marked \\* is never empty.\n",
    ]
    for table in tables:
        parts += [f"## `{table.file}`\n", _described(table)]
    parts += ["## Computed columns\n", _described(COMPUTED)]
    parts.append(
        "## JSON files\n\nA key that is absent or null is unknown; one that is not listed here is kept when the file "
        "is written again.\n`list[].key` is a key of each item, `object.*.key` a key of each value.\n"
    )
    for file, kind in ((MANIFEST, Manifest), (COMPARISON, ComparisonState)):
        parts.append(f"### `{file}`\n")
        parts.append(f"{str(kind.__doc__).partition(': ')[2].capitalize()}\n")
        lines = ["| key | value | description |", "|---|---|---|"]
        lines += [f"| `{key}` | {noun} | {_cell(description)} |" for key, noun, description in documented(kind)]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _described(table: TableSchema) -> str:
    lines = ["| column | kind | unit | better | description |", "|---|---|---|---|---|"]
    for column in table.columns:
        name = f"`{column.name}`" + (" \\*" if column.required else "")
        lines.append(f"| {name} | {column.kind} | {column.unit} | {column.better} | {_cell(column.description)} |")
    return f"{table.description[0].upper()}{table.description[1:]}.\n\n" + "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Escape what would end a cell of a markdown table."""
    return text.replace("|", "\\|")
