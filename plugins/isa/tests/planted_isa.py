"""Tables of compiles that are planted."""

from rooflens.analysis.frames.tables import parse_table
from rooflens.harness.storage.tables import fields
from rooflens.shapes.files.csv_file import csv_text
from rooflens.shapes.run_folder.columns_isa import ISA

from tests.analysis.planted_isa import COMPILED


def frame(*rows):
    """Rows of isa.csv as they are read back; each argument overrides a binary without stores and spills."""
    text = csv_text(
        ISA.names, [fields(ISA, COMPILED | {"code": f"c{number}"} | row) for number, row in enumerate(rows)]
    )
    return parse_table(text.encode(), ISA, ISA.file)
