"""One cell in another unit than its column, with a number as the others have: 28.5 ms among microseconds."""

from collections import Counter
from collections.abc import Iterator

from ..evidence.context import Case, Rule, at
from ..evidence.finding import Finding, Need, Severity
from ..reading.annotated_table import Role
from ..reading.printed import read_printed

FEWEST = 3
"""Cells of one unit beside which another one is odd."""

FAR = 30.0
"""Factor between the cell and all others, as they are printed, from which on its unit is what is wrong."""


def check(case: Case) -> Iterator[Finding]:
    """Look for a cell that lies among the others by its digits, and far from all of them with its unit."""
    for sheet in case.sheets:
        for column in sheet.of(Role.TIME, Role.RATE, Role.BANDWIDTH):
            units = Counter(cell.unit for cell in column.cells if cell is not None and cell.unit)
            if len(units) != 2 or min(units.values()) > 1 or max(units.values()) < FEWEST:
                continue
            usual, odd = (unit for unit, _ in units.most_common())
            row = next(row for row, cell in enumerate(column.cells) if cell is not None and cell.unit == odd)
            cell = column.cells[row]
            assert cell is not None  # it has a unit
            raw = read_printed(cell.text)
            others = [one for one in column.cells if one is not None and one.unit == usual]
            numbers = [number.value for one in others if (number := read_printed(one.text)) is not None]
            values = [one.value for one in others]
            if raw is None or not min(numbers) <= raw.value <= max(numbers):
                continue
            if cell.value > FAR * max(values) or cell.value < min(values) / FAR:
                message = (
                    f"{column.name}: {sheet.quoted(row, column)} among {len(others)} cells in {usual}, of like digits"
                )
                yield at(RULE, Severity.QUESTION, sheet, row, message, RULE.advice, column)


RULE = Rule(
    "odd-unit",
    "one cell has another unit than its column, and a number as the others have with theirs",
    "check the unit of this cell",
    check,
    ((Need.MEASURED,),),
)
