"""A parquet file as a table of texts, like one that was read from CSV; row 1 counts as line 1."""

import io

from ...shapes.errors import RooflensError, UsageError, shorten
from .table import ImportedTable

MAGIC = b"PAR1"
"""Bytes that a parquet file begins with."""

LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""What a file begins with whose content Git LFS keeps elsewhere."""

MOST_ROWS = 2_000_000
"""Rows of a file that is read; the tables of published measurements have a tenth of that."""

MOST_BYTES = 1 << 30
"""Bytes of a file that is read, once unpacked."""


def refuse_pointer(content: bytes, where: str) -> None:
    """Raise UsageError for a pointer of Git LFS in place of the file that it points to."""
    if content.startswith(LFS_POINTER):
        raise UsageError(f"{where} is a pointer of Git LFS and not the table: fetch it with git lfs pull")


def parse_parquet(content: bytes, where: str) -> ImportedTable:
    """Read a parquet file, numbers with all digits. Raises UsageError for one that is damaged, empty or too long.

    Raises RooflensError where pyarrow is not installed.
    """
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise RooflensError(f"{where} is parquet, which needs pyarrow: pip install 'rooflens[parquet]'") from None
    try:
        file = parquet.ParquetFile(io.BytesIO(content))
        rows = file.metadata.num_rows
        if rows > MOST_ROWS:
            raise UsageError(f"{where} has {rows} rows, and at most {MOST_ROWS} are read; give a part of it")
        groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
        if sum(group.total_byte_size for group in groups) > MOST_BYTES:
            raise UsageError(f"{where} unpacks to more than {MOST_BYTES >> 30} GiB; give a part of it")
        found = file.read()
        columns = [["" if value is None else str(value) for value in column.to_pylist()] for column in found.columns]
    except (arrow.ArrowException, OSError) as error:
        raise UsageError(f"{where}: damaged parquet ({shorten(str(error))}); fetch it again") from None
    return ImportedTable(where, tuple(found.column_names), tuple(zip(*columns, strict=True)), tuple(range(1, rows + 1)))
