"""A report with plain signs only: what `--ascii` renders."""

import re
from dataclasses import Field, fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar, cast

from ..figures.chart import Chart, Figure
from ..formatting import DIVIDE, MINUS, TIMES
from ..model import CodeBlock, Report

_Any = TypeVar("_Any")

_EXACT = {"id", "source", "language", "style", "value", "notes", "link"}
"""Fields that are no text of ours: anchors, names of files, raw values."""


ASCII = {
    MINUS: "-", TIMES: "x", DIVIDE: "/", "µ": "u", "μ": "u", "·": "-", "…": "...", "±": "+-", "°": "deg ", "≤": "<=",
    "≥": ">=", "≈": "~", "≠": "!=", "∞": "inf", "→": "->", "←": "<-", "↑": "^", "↓": "v", "Σ": "sum", "Δ": "delta",
    "σ": "sigma", "√": "sqrt", "–": "-", "—": "-", "“": '"', "”": '"', "‘": "'", "’": "'", "\N{NO-BREAK SPACE}": " ",
    "\N{NARROW NO-BREAK SPACE}": " ", "\N{THIN SPACE}": " ", "\N{WORD JOINER}": "",
    "\N{ZERO WIDTH SPACE}": "", "\N{REPLACEMENT CHARACTER}": "?",
    "•": "*", "†": "+", "‡": "++", "☑": "[x]", "☐": "[ ]", "█": "#", "▇": "#", "▆": "#", "▅": "=", "▄": "=", "▃": "-",
    "▂": "-", "▁": "_", "▀": "=", "░": ".", "▒": ":", "▓": "#", "■": "#", "●": "*", "○": "o", "▲": "^", "▼": "v",
    "▉": "#", "▊": "#", "▋": "#", "▌": "#", "▍": "-", "▎": "-", "▏": "-",
}  # fmt: skip
"""Plain form of every sign that rooflens writes; superscripts are `_RAISED`. Names of the user stay as they are."""

_RAISED = {ord(sign): plain for sign, plain in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+", strict=True)}
_RAISED_RUN = re.compile(f"[{''.join(map(chr, _RAISED))}]+")
_PLAIN = str.maketrans(ASCII)


def to_ascii(text: str) -> str:
    """Write `text` with plain signs: 3.64x, <= 12.3 us, 10^-3, ->."""
    if text.isascii():
        return text
    return _RAISED_RUN.sub(lambda run: f"^{run[0].translate(_RAISED)}", text).translate(_PLAIN)


def as_ascii(report: Report) -> Report:
    """Return `report` with our signs in ASCII, in texts, tables and alternative texts of figures.

    Commands to copy stay as they are, names of the user keep what is no sign of ours, and images are not drawn anew.
    """
    return _plain(report)


def _plain(value: _Any) -> _Any:
    if isinstance(value, Enum | CodeBlock | Chart):
        return value
    if isinstance(value, str):
        return cast(_Any, to_ascii(value))
    if isinstance(value, tuple):
        return cast(_Any, tuple(_plain(item) for item in value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    found: dict[str, Any] = {
        one.name: now
        for one in fields(value)
        if _is_text(value, one) and (now := _plain(was := getattr(value, one.name))) != was
    }
    return cast(_Any, replace(value, **found)) if found else value


def _is_text(value: object, one: "Field[Any]") -> bool:
    """False for what stays exact: anchors and raw values, and the data and legend of a figure, which name columns."""
    return one.init and one.name not in _EXACT and not (isinstance(value, Figure) and one.name in ("data", "legend"))
