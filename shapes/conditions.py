"""Conditions that the user writes over the columns of a table, as --filter and --claim take them.

A condition is text from a command line or a stored run, so nothing of it is executed: it is parsed, its size is
bounded, and every node has to be one that is known here.
"""

import ast
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .errors import QUOTED, UsageError

if TYPE_CHECKING:
    import pandas as pd

LONGEST = 4000
"""Characters of a condition."""

DEEPEST = 50
"""Levels of its nesting."""

LANGUAGE = (
    "comparisons, and, or, not, in [...], + - * / // %, and .str.startswith, .str.endswith and .str.contains of a text"
)
"""What a condition may consist of, for messages and docs."""


def rows_where(
    table: "pd.DataFrame", expression: str, option: str, over: Sequence[str] | str, example: str
) -> "pd.Series[bool]":
    """Tell for each row whether a condition holds; where it rests on an unknown number it does not, nor its opposite.

    `expression` is `LANGUAGE` over the columns of `table`, such as "M <= 64 and provider != 'blas'". Raises UsageError,
    which names `option`, what conditions can be `over`, and the `example`, for anything else.
    """
    import pandas as pd

    try:
        found = _Condition(table).of(expression)
    except (ValueError, OverflowError) as error:
        columns = over if isinstance(over, str) else ", ".join(over)
        quoted = expression if len(expression) <= QUOTED else f"{expression[:QUOTED]}..."
        raise UsageError(
            f'{option} {quoted!r}: {error}; write conditions over {columns}, such as "{example}"'
        ) from None
    return pd.Series(np.broadcast_to(found.values & found.known, len(table)), index=table.index, dtype=bool)


@dataclass(frozen=True, slots=True)
class _Values:
    """A column or what was computed of some, [rows], or a constant, []; `values` means nothing where not `known`."""

    kind: str
    values: npt.NDArray[Any]
    known: npt.NDArray[np.bool_]
    is_constant: bool = False


_NUMBER, _TEXT, _TRUTH = "number", "text", "condition"

_NUMBERS = (int, float, np.integer, np.floating)

_RELATIONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": operator.contains,
}

_QUOTED_OR_SIGN = re.compile(r"""('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|`([^`]*)`|\b(pass)\b|([&|])""")
"""Texts, which stay as they are; names in backticks, the column that is called like a statement, and the `&` and `|`
of pandas, which are rewritten for Python."""

_NAME = "_column_{}"


class _Condition:
    """Evaluates one expression over a table; ValueError says what is wrong with it."""

    def __init__(self, table: "pd.DataFrame") -> None:
        self._table = table
        self._quoted: list[str] = []
        self._source = b""
        self._columns: dict[str, _Values] = {}

    def of(self, expression: str) -> _Values:
        """Return the truth of a whole expression."""
        if not expression.strip():
            raise ValueError("this is empty")
        if len(expression) > LONGEST:
            raise ValueError(f"this has more than {LONGEST} characters")
        if "\n" in expression or "\0" in expression:
            raise ValueError("this is not a single line")
        self._quoted = []
        try:
            source = _QUOTED_OR_SIGN.sub(self._rewritten, expression).strip()
            self._source = source.encode("utf-8")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that of Python on "1and"
                tree = ast.parse(source, mode="eval")
        except UnicodeEncodeError:
            raise ValueError("this is not in the encoding of the terminal") from None
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            raise ValueError(error.msg if isinstance(error, SyntaxError) else "this is nested too deeply") from None
        found = self._value(tree.body, DEEPEST)
        if found.kind != _TRUTH:
            raise ValueError(f"this is a {found.kind}, not a condition")
        if found.is_constant:
            raise ValueError("this names no column, and is not a condition on each row")
        return found

    def _rewritten(self, match: re.Match[str]) -> str:
        text, quoted, keyword, sign = match.groups()
        if text is not None:
            return text
        if sign is not None:
            return " and " if sign == "&" else " or "
        self._quoted.append(quoted if keyword is None else keyword)
        return _NAME.format(len(self._quoted) - 1)

    def _value(self, node: ast.AST, left: int) -> _Values:
        if left == 0:
            raise ValueError(f"this is nested more than {DEEPEST} levels deep")
        left -= 1
        match node:
            case ast.Name(id=name):
                return self._column(name)
            case ast.Constant(value=value):
                return _constant(value)
            case ast.BoolOp(op=op, values=nodes):
                parts = (self._of_kind(_TRUTH, each, left) for each in nodes)
                return _all(parts) if isinstance(op, ast.And) else _negated(_all(map(_negated, parts)))
            case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
                return _negated(self._of_kind(_TRUTH, operand, left))
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
                found = self._of_kind(_NUMBER, operand, left)
                values = -found.values if isinstance(op, ast.USub) else found.values
                return _Values(_NUMBER, values, found.known, found.is_constant)
            case ast.BinOp(left=one, op=op, right=other) if type(op) in _ARITHMETIC:
                return _computed(
                    _ARITHMETIC[type(op)], self._of_kind(_NUMBER, one, left), self._of_kind(_NUMBER, other, left)
                )
            case ast.Compare(left=first, ops=ops, comparators=others):
                nodes = [first, *others]
                pairs = zip(nodes, ops, others, strict=False)
                return _all(self._compared(one, op, other, left) for one, op, other in pairs)
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=of, attr="str"), attr=name),
                args=[ast.Constant(value=str(text))],
                keywords=[],
            ) if name in _TEXT_TESTS:
                found, test = self._of_kind(_TEXT, of, left), _TEXT_TESTS[name]
                holds = np.array([test(value, text) for value in np.atleast_1d(found.values)], dtype=bool)
                return _Values(_TRUTH, holds.reshape(found.values.shape), found.known, found.is_constant)
        raise ValueError(f"{self._written(node)} is not allowed: a condition consists of {LANGUAGE}")

    def _written(self, node: ast.AST) -> str:
        """Quote what a node was parsed from."""
        assert isinstance(node, ast.expr)
        text = self._source[node.col_offset : node.end_col_offset].decode("utf-8", "replace")
        for number, quoted in enumerate(self._quoted):
            text = text.replace(_NAME.format(number), f"`{quoted}`")
        return repr(text[:QUOTED])

    def _of_kind(self, kind: str, node: ast.AST, left: int) -> _Values:
        found = self._value(node, left)
        if found.kind != kind:
            raise ValueError(f"{self._written(node)} is a {found.kind}, not a {kind}")
        return found

    def _compared(self, one: ast.expr, op: ast.cmpop, other: ast.expr, left: int) -> _Values:
        """Compare two values; of a list, == and in mean that it holds the value."""
        first = self._value(one, left)
        if isinstance(other, ast.List | ast.Tuple):
            if not isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                raise ValueError(f"{self._written(other)} is a list: compare with ==, !=, in or not in")
            among = (self._value(element, left) for element in other.elts)
            found = _negated(_all((_negated(_related(operator.eq, first, each)) for each in among), first))
            return found if isinstance(op, ast.Eq | ast.In) else _negated(found)
        if type(op) not in _RELATIONS:
            raise ValueError(f"{self._written(other)} is not a list such as [1, 4], which in and not in need")
        return _related(_RELATIONS[type(op)], first, self._value(other, left))

    def _column(self, name: str) -> _Values:
        for number, quoted in enumerate(self._quoted):
            if name == _NAME.format(number):
                name = quoted
        if name not in self._table.columns:
            raise ValueError(f"there is no column {name[:QUOTED]!r}")
        if name not in self._columns:
            self._columns[name] = self._read(name)
        return self._columns[name]

    def _read(self, name: str) -> _Values:
        column = self._table[name]
        known = column.notna().to_numpy(dtype=bool)
        kinds = {bool if isinstance(value, bool | np.bool_) else type(value) for value in column[known]}
        if kinds == {bool} or column.dtype == bool:
            return _Values(_TRUTH, np.where(known, column, False).astype(bool), known)
        if (kinds and all(issubclass(kind, _NUMBERS) for kind in kinds)) or column.dtype.kind in "iuf":
            return _Values(_NUMBER, column.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan), known)
        return _Values(_TEXT, np.array([str(value) for value in column.where(known, "")], dtype=object), known)


def _constant(value: object) -> _Values:
    known = np.array(True)
    if isinstance(value, bool):
        return _Values(_TRUTH, np.array(value), known, is_constant=True)
    if isinstance(value, int | float):
        return _Values(_NUMBER, np.array(float(value)), known, is_constant=True)
    if isinstance(value, str):
        return _Values(_TEXT, np.array(value, dtype=object), known, is_constant=True)
    raise ValueError(f"{str(value)[:QUOTED]!r} is not a number and not a text")


def _computed(operation: Callable[[Any, Any], Any], one: _Values, other: _Values) -> _Values:
    with np.errstate(all="ignore"):
        values = operation(one.values, other.values)
    return _Values(_NUMBER, values, one.known & other.known & ~np.isnan(values), one.is_constant and other.is_constant)


def _related(relation: Callable[[Any, Any], Any], one: _Values, other: _Values) -> _Values:
    if one.kind != other.kind or (one.kind == _TRUTH and relation not in (operator.eq, operator.ne)):
        raise ValueError(f"a {one.kind} and a {other.kind} cannot be compared like that")
    holds = np.asarray(relation(one.values, other.values), dtype=bool)
    return _Values(_TRUTH, holds, one.known & other.known, one.is_constant and other.is_constant)


def _all(parts: Iterable[_Values], like: _Values | None = None) -> _Values:
    """Return whether all hold: false as soon as one is known to be false, unknown where an unknown one would decide.

    The result has as many rows as `like`, should there be no parts. Of these one at a time is in memory.
    """
    shape = like.values.shape if like else ()
    holds, known, refuted = np.ones(shape, bool), np.ones(shape, bool), np.zeros(shape, bool)
    is_constant = like is None or like.is_constant
    for part in parts:
        holds = holds & part.values
        known = known & part.known
        refuted = refuted | (part.known & ~part.values)
        is_constant = is_constant and part.is_constant
    return _Values(_TRUTH, holds & ~refuted, known | refuted, is_constant)


def _negated(found: _Values) -> _Values:
    return _Values(_TRUTH, ~found.values, found.known, found.is_constant)
