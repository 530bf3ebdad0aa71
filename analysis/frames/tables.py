"""Read one stored table against its schema, or say in which line and column it is wrong.

A table is read twice at most: in one go by pandas, and only if anything about the result is off, field by field to find
the first fault. The second pass decides what is reported; the first is there because a run holds a million samples.
"""

import io
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ...shapes.errors import UsageError, quote, unknown_name
from ...shapes.files import csv_file
from ...shapes.files.json_file import parse_value
from ...shapes.run_folder.columns import CEILINGS, CELLS, SAMPLES, ColumnSchema, ColumnType, TableSchema
from ...shapes.verdict import Verdict

_WORDS = {
    (CELLS.name, "verdict"): tuple(Verdict),
    (CELLS.name, "cache"): ("cold", "warm"),
    (CEILINGS.name, "ceiling"): ("bandwidth", "peak", "vector", "launch", "latency", "clock"),
    (CEILINGS.name, "kind"): ("measured", "spec", "derived"),
}
"""Columns whose values come from a fixed list."""

_POSITIVE = (
    *("B", "E", "top_k", "M", "N", "K", "compulsory_bytes", "moved_bytes"),
    *("time_s", "event_time_s", "kernels_s", "value", "gemm_s", "copy_s", "copies", "launches_per_sample"),
    *("tile_M", "tile_N", "workgroups", "resident", "issued_flops", "decoded_weights"),
)
"""Columns that are divided by or whose logarithm is taken, where they are not empty. The time of a discarded sample may
be negative: that can be why it does not count."""

LEAST, MOST = 1e-30, 1e30
"""No measured number is smaller or larger: products and ratios of a few of them are still finite."""

_WAY_OUT = "restore the file from a copy, or delete the line and measure what is missing with rooflens run --resume"

_FAULTS = (ValueError, TypeError, KeyError, OverflowError, pd.errors.ParserError)
"""What pandas raises on content that does not fit."""


def parse_table(content: bytes, table: TableSchema, where: str) -> pd.DataFrame:
    """Return the rows of `content` (a CSV file) with the columns of `table`, in order; row i is record i of the file.

    Text and JSON columns are str, "" where empty; required integers int64, optional ones Int64; floats NaN where empty;
    booleans nullable. A column that is not required may be absent, as from a file that an older version wrote: it is
    unknown in every row. A last line without its line break is what an interrupted writer left, and is ignored. Raises
    UsageError with `where`, the line and the column otherwise.
    """
    whole = content[: content.rfind(b"\n") + 1]
    header = _header(whole, table, where)
    if _has_ragged_rows(whole, len(header), where):
        raise _first_fault(whole, table, header, where, "rows differ in length")
    try:
        with np.errstate(all="ignore"):  # a field of 1e300 in a column of whole numbers is reported below
            frame = _read(whole, table, header)
    except _FAULTS as error:
        raise _first_fault(whole, table, header, where, str(error)) from None
    if any(_is_faulty(frame, table, table[name]) for name in header):
        raise _first_fault(whole, table, header, where, "the values do not fit the columns")
    absent = {column.name: _unknown(column, frame.index) for column in table.columns if column.name not in header}
    return frame.assign(**absent)[list(table.names)]


def empty_table(table: TableSchema) -> pd.DataFrame:
    """Return no rows, with the columns and dtypes that `parse_table` gives them."""
    index = pd.RangeIndex(0)
    return pd.DataFrame({column.name: _unknown(column, index) for column in table.columns})


def line_of(content: bytes, record: int) -> int:
    """Line, counted from 1, at which data record `record` (counted from 0) of a CSV file starts."""
    lines = (line for line, _ in _records(content, ""))
    for _ in range(record + 1):  # the header is the first record
        next(lines)
    return next(lines)


def _header(content: bytes, table: TableSchema, where: str) -> list[str]:
    if not content:
        raise UsageError(f"{where} is empty: not even its header was written; measure the run again")
    header = next((fields for _, fields in _records(content, where)), [])
    for name in header:
        if name not in (*table.names, *table.former):
            unknown = unknown_name("column", name, list(table.names), "read it with the rooflens version that wrote it")
            raise UsageError(f"{where} line 1: {unknown}")
        if header.count(name) > 1:
            raise UsageError(f"{where} line 1: column {quote(name)} appears twice; remove one")
    needed = (column.name for column in table.columns if column.required and column.absent is None)
    if missing := [name for name in needed if name not in header]:
        raise UsageError(
            f"{where} line 1: column {missing[0]!r} is missing; read the run with the rooflens version that wrote it"
        )
    return header


def _read(content: bytes, table: TableSchema, header: list[str]) -> pd.DataFrame:
    typed = {
        column.name: _dtype(column) for column in table.columns if column.kind in (ColumnType.INT, ColumnType.FLOAT)
    }
    frame = pd.read_csv(
        io.BytesIO(content),
        names=header,
        header=0,
        index_col=False,
        dtype={name: typed.get(name, "str") for name in header},
        keep_default_na=False,
        na_values={name: [""] for name in typed},
        skip_blank_lines=False,
        encoding="utf-8",
        engine="c",
    )
    for name in header:
        if table[name].kind is ColumnType.BOOL:
            frame[name] = _booleans(frame[name])
        elif table[name].kind is ColumnType.TEXT and b"'" in content:
            texts = {text: csv_file.from_text(text) for text in frame[name].unique()}
            frame[name] = frame[name].map(texts).astype("str")
    return frame


def _unknown(column: ColumnSchema, index: pd.Index) -> "pd.Series[Any]":
    if column.kind in (ColumnType.TEXT, ColumnType.JSON):
        return pd.Series("", index=index, dtype="str")
    if column.kind is ColumnType.BOOL:
        return pd.Series(pd.NA, index=index, dtype="boolean")
    if _dtype(column) == "int64":  # of an empty table, or known to have been the same for all
        return pd.Series(column.absent or 0, index=index, dtype="int64")
    return pd.Series(pd.NA if column.kind is ColumnType.INT else np.nan, index=index, dtype=_dtype(column))


def _dtype(column: ColumnSchema) -> str:
    if column.kind is ColumnType.FLOAT:
        return "float64"
    return "int64" if column.required else "Int64"


def _booleans(text: "pd.Series[str]") -> "pd.Series[bool]":
    values = {word: {"": pd.NA, "true": True, "false": False}[word] for word in text.unique()}
    return text.map(values).astype("boolean")


def _has_ragged_rows(content: bytes, fields: int, where: str) -> bool:
    """True when some row has more or fewer fields than the header; pandas fills up and cuts off without a word."""
    if b'"' not in content and b"\r" not in content:
        return content.count(b",") != content.count(b"\n") * (fields - 1)
    return any(len(row) != fields for _, row in _records(content, where))


def _is_faulty(frame: pd.DataFrame, table: TableSchema, column: ColumnSchema) -> bool:
    values = frame[column.name]
    if column.kind in (ColumnType.TEXT, ColumnType.JSON):
        distinct = pd.unique(values)
        return any(_fault(str(value), table, column) for value in distinct)
    if column.required and bool(values.isna().any()):
        return True
    if column.name not in _POSITIVE:
        return False
    counting = values.dropna().to_numpy(dtype=float)
    wrong = ~((counting >= LEAST) & (counting <= MOST))
    if not wrong.any():
        return False
    return table.name != SAMPLES.name or "discarded" not in frame or bool((wrong & (frame["discarded"] == "")).any())


def _records(content: bytes, where: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line at which it starts, fields) of each record, the header first; decoded as far as it is consumed."""
    lines = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="replace", newline="")
    return csv_file.records(lines, where, way_out=_WAY_OUT)


def _first_fault(content: bytes, table: TableSchema, header: list[str], where: str, otherwise: str) -> UsageError:
    for line, fields in _records(content, where):
        if line == 1:
            continue
        if len(fields) != len(header):
            return UsageError(
                f"{where} line {line}: {len(fields)} fields instead of {len(header)}, from column "
                f"{quote(header[min(len(fields), len(header) - 1)])} on; {_WAY_OUT}"
            )
        counts = table.name != SAMPLES.name or not dict(zip(header, fields, strict=True)).get("discarded")
        for name, text in zip(header, fields, strict=True):
            if fault := _fault(text, table, table[name], counts):
                return UsageError(f"{where} line {line}, column {name}: {fault}; {_WAY_OUT}")
    return UsageError(f"{where}: {otherwise}; restore the file from a copy")


def _fault(text: str, table: TableSchema, column: ColumnSchema, counts: bool = True) -> str:
    """Say what is wrong with one field, "" when nothing is; `counts`: it is not of a discarded sample."""
    if text == "":
        return "is empty, but must not be" if column.required else ""
    if "\N{REPLACEMENT CHARACTER}" in text:
        return f"{quote(text)} is not valid UTF-8"
    words = _WORDS.get((table.name, column.name), ())
    if words and text not in words:
        return f"unknown word {quote(text)} (known: {', '.join(words)})"
    if column.kind is ColumnType.INT and not (re.fullmatch(r"[+-]?[0-9]{1,19}", text) and abs(int(text)) < 1 << 63):
        return f"{quote(text)} is not a whole number"
    if column.kind is ColumnType.FLOAT and not _is_number(text):
        return f"{quote(text)} is not a number"
    if column.kind is ColumnType.BOOL and text not in ("true", "false"):
        return f"{quote(text)} is neither true nor false"
    if column.kind is ColumnType.JSON and (fault := _json_fault(text, column)):
        return f"{quote(text)} {fault}"
    if column.name in _POSITIVE and counts and not LEAST <= float(text) <= MOST:
        what = "not positive and finite" if not 0 < float(text) < math.inf else "too small or too large to be measured"
        return f"{quote(text)[1:-1]} is {what}"
    return ""


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _json_fault(text: str, column: ColumnSchema) -> str:
    try:
        value = parse_value(text)
    except ValueError:
        return "is not JSON"
    kind, noun = (list, "list") if column.name == "kernels" else (dict, "object")
    return "" if isinstance(value, kind) else f"is not a JSON {noun}"


def flat_settings(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings of a configuration, those of nested mappings under dotted names."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flat_settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
