"""Conditions that the user writes over the columns of a table, as --filter and --claim take them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .errors import UsageError

if TYPE_CHECKING:
    import pandas as pd


def rows_where(
    table: "pd.DataFrame", expression: str, option: str, over: Sequence[str] | str, example: str
) -> "pd.Series[bool]":
    """Tell for each row whether a condition holds; where it rests on an unknown number it does not, nor its opposite.

    `expression` is a pandas query such as "M <= 64 and provider != 'blas'". It sees the columns of `table` and nothing
    else. Raises UsageError, which names `option`, what conditions can be `over`, and the `example`, for anything that
    is not one truth value per row.
    """
    import pandas as pd

    try:
        # Empty scopes: with @name pandas would otherwise look into the variables of whoever calls it.
        holds = _three_valued(table).eval(expression, engine="python", local_dict={}, global_dict={})
        if not isinstance(holds, pd.Series) or not pd.api.types.is_bool_dtype(holds):
            raise TypeError("this is not a condition")
        if not holds.index.equals(table.index):
            raise TypeError("this is not a condition on each row")
    except Exception as error:  # pandas raises a dozen types here, all of them about the user's expression
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        columns = over if isinstance(over, str) else ", ".join(over)
        raise UsageError(
            f'{option} {expression!r}: {message}; write conditions over {columns}, such as "{example}"'
        ) from None
    return holds.fillna(False).astype(bool)


def _three_valued(table: "pd.DataFrame") -> "pd.DataFrame":
    """Numbers that can be unknown as nullable ones: as NaN they would make `x != 3` and `not x > 3` true."""
    numbers = table.select_dtypes("float64").columns
    return table.astype(dict.fromkeys(numbers, "Float64"))
