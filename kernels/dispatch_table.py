"""Tables of measured choices, as `rooflens dispatch --emit csv` and `report -o aiter=` write them, for a dispatcher.

It reads gfx, q_dtype_w and dtype (the setting), B, E, top_k (1 where absent), N, K, M, libtype (the provider that
runs) and kernelName (that provider and its configuration). The row of the smallest M at or above a problem's decides;
its configuration is used at exactly its M.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..shapes.errors import UsageError, quote
from ..shapes.files.csv_file import rows
from ..shapes.files.file_text import read_content
from ..shapes.problem import Problem
from ..shapes.scheme import DType, Scheme
from ..shapes.schemes import parse_scheme
from .provider import Config

_NEEDED = ("gfx", "M", "N", "K", "dtype", "q_dtype_w", "libtype", "kernelName")
_SIZES = ("M", "N", "K", "B", "E", "top_k")
_WAY_OUT = "give a file of rooflens dispatch --emit csv or report -o aiter=FILE"
_OPTION = re.compile(r"(\w+)=(\S+)")


@dataclass(frozen=True, slots=True)
class DispatchRow:
    """Run `provider` for up to M rows; with `config` at M."""

    M: int
    provider: str
    config: Config


Table = Mapping[tuple[str, Scheme, Problem], tuple[DispatchRow, ...]]
"""Architecture, setting, and shape as a problem of one row -> rows with rising M."""


def find_row(table: Table, problem: Problem, scheme: Scheme, arch: str) -> DispatchRow | None:
    """Return the row of the smallest M at or above the problem's, None where the shape has none."""
    found = table.get((arch, _setting(scheme), replace(problem, M=1)), ())
    return next((row for row in found if row.M >= problem.M), None)


def read_table(path: Path) -> Table:
    """Read a table. Raises UsageError that names file and line of what is wrong."""
    table: dict[tuple[str, Scheme, Problem], tuple[DispatchRow, ...]] = {}
    try:
        content = read_content(path, _WAY_OUT)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such dispatch table; {_WAY_OUT}") from None
    for line, fields in rows(content, path, _NEEDED, way_out=_WAY_OUT):
        try:
            problem, scheme, config = _read(fields)
        except (ValueError, UsageError) as error:
            raise UsageError(f"{path} line {line}: {error}; {_WAY_OUT}") from None
        key = fields["gfx"], _setting(scheme), replace(problem, M=1)
        known = table.get(key, ())
        if any(row.M == problem.M for row in known):
            raise UsageError(f"{path} line {line}: {problem} appears twice; keep one of its lines")
        row = DispatchRow(problem.M, fields["libtype"], config)
        table[key] = tuple(sorted((*known, row), key=lambda one: one.M))
    return table


def _read(fields: Mapping[str, str]) -> tuple[Problem, Scheme, dict[str, Any]]:
    sizes = {name: int(fields.get(name) or "1") for name in _SIZES}
    scheme = parse_scheme(fields["q_dtype_w"], DType.parse(fields["dtype"]))
    provider, _, options = fields["kernelName"].partition(" ")
    if provider != fields["libtype"]:
        raise ValueError(f"kernelName {quote(provider)} is not libtype {quote(fields['libtype'])}")
    found = [_OPTION.fullmatch(option) for option in options.split()]
    config = {match[1]: _value(match[2]) for match in found if match}
    if len(config) < len(found):
        raise ValueError(f"kernelName {quote(fields['kernelName'])}: options are written NAME=VALUE")
    return Problem(**sizes, op=scheme.ops[0]), scheme, config  # type: ignore[arg-type]


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else text


def _setting(scheme: Scheme) -> Scheme:
    """The scheme without the rule by which scales are rounded, which no kernel's time depends on."""
    return replace(scheme, rule="rceil") if hasattr(scheme, "rule") else scheme  # type: ignore[type-var]
