"""What changed in the machine code between two files of `rooflens isa`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...shapes.run_folder.columns_isa import ISA

GROUP = ["arch", "provider", "kernel", "part", "op", "pass", "dtype", "scheme"]
"""Binaries are summarized over configurations and specializations: what is left."""

KEY = [*GROUP, "B", "E", "top_k", "M", "N", "K", "config"]
"""What identifies a binary in two tables; several kernels of one name are distinguished by their order."""

PLACE = ["arch", "provider", "kernel", "part", "pass", "dtype"]
"""What changes are summarized over: the rest of KEY."""

_NUMBER = "_number"
_TOLD = (*("problems", "default", "specialization", "triton", "reason"), "code")
"""Columns whose change is not listed: they say what was compiled, not what came out; `code` decides what is equal."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Two files compared.

    changes  one row per binary and column that differs: KEY, column, base, head
    added, removed  rows that only the second, only the first file has
    common   binaries in both; identical: with equal machine code; recoded: other code, but no count or number differs
    compilers  versions of Triton of base and head
    """

    changes: pd.DataFrame
    added: pd.DataFrame
    removed: pd.DataFrame
    common: int
    identical: int
    recoded: int
    compilers: tuple[str, str]


def compare(base: pd.DataFrame, head: pd.DataFrame) -> Difference:
    """Compare two frames of isa.csv, `base` the older one."""
    compilers = tuple(" ".join(sorted(set(frame["triton"]) - {""})) for frame in (base, head))
    old, new = _keyed(base), _keyed(head)
    both = new.index[new.index.isin(old.index)]
    columns = [name for name in ISA.names if name not in (*KEY, *_TOLD)]
    rows: list[dict[str, Any]] = []
    identical = recoded = 0
    for key in both:
        before, after = old.loc[key], new.loc[key]
        pairs = [(name, python_value(before[name]), python_value(after[name])) for name in columns]
        differing = [(name, was, now) for name, was, now in pairs if was != now]
        same_code = before["code"] == after["code"]
        identical += same_code and not differing
        recoded += not same_code and not differing
        place = dict(zip(KEY, key, strict=False))
        rows += [{**place, "column": name, "base": was, "head": now} for name, was, now in differing]
    return Difference(
        changes=pd.DataFrame(rows, columns=[*KEY, "column", "base", "head"]),
        added=head.loc[~new.index.isin(old.index)],
        removed=base.loc[~old.index.isin(new.index)],
        common=len(both),
        identical=identical,
        recoded=recoded,
        compilers=(compilers[0], compilers[1]),
    )


def summarize_changes(difference: Difference) -> pd.DataFrame:
    """One row per PLACE and column that differs, in the order of the columns.

    changed counts the binaries; base and head are the values that they had and have, as a range.
    """
    rows: list[dict[str, Any]] = []
    for place, group in difference.changes.groupby(PLACE, sort=False):
        for column in filter(set(group["column"]).__contains__, ISA.names):
            own = group.loc[group["column"] == column]
            row: dict[str, Any] = dict(zip((*PLACE, "column"), (*place, column), strict=True))
            rows.append(row | {"changed": len(own), "base": _range(own["base"]), "head": _range(own["head"])})
    return pd.DataFrame(rows, columns=[*PLACE, "column", "changed", "base", "head"])


def _keyed(frame: pd.DataFrame) -> pd.DataFrame:
    numbered = frame.assign(**{_NUMBER: frame.groupby(KEY, sort=False).cumcount()})
    return numbered.set_index([*KEY, _NUMBER])


def _range(values: "pd.Series[Any]") -> str:
    """Write "64", "0 to 12", or the words of a text column; "-" if unknown."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in known):
        return ", ".join(sorted({value or "-" for value in known}))
    if not known:
        return "-"
    low, high = min(known), max(known)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def python_value(value: Any) -> Any:
    """Turn an unknown value into None, and a whole float into an int."""
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return None
    return int(value) if isinstance(value, (float, np.integer, np.floating)) and float(value).is_integer() else value
