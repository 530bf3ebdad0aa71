"""Conditions of the user's own, over tables made here; what is true of each row is told by Python."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.shapes.conditions import rows_where
from rooflens.shapes.errors import UsageError

ROWS = [
    {"M": 1, "provider": "blas", "registers": 32, "ratio": 0.5},
    {"M": 64, "provider": "mine", "registers": None, "ratio": None},
    {"M": 4096, "provider": "mine@2", "registers": 128, "ratio": 2.0},
]

secret = 3  # a variable of the caller, which no condition may see


def table() -> pd.DataFrame:
    return pd.DataFrame(ROWS, index=[7, 3, 5]).astype({"registers": "Int64"})


def ask(expression: str) -> list[bool]:
    found = rows_where(table(), expression, "--filter", ["M", "provider"], "M <= 64")
    assert found.dtype == bool
    assert list(found.index) == [7, 3, 5]
    return list(found)


@pytest.mark.parametrize(
    "expression, holds",
    [
        ("M <= 64", [True, True, False]),
        ("M <= 64 and provider != 'blas'", [False, True, False]),
        ("M == [1, 4096]", [True, False, True]),
        ("provider.str.startswith('mine')", [False, True, True]),
        ("provider == 'mine@2'", [False, False, True]),
        ("M * 2 == registers + 62 or ratio > 1", [False, False, True]),
        ("M > 5000", [False, False, False]),
    ],
)
def test_a_condition_is_told_for_each_row(expression, holds):
    assert ask(expression) == holds


@pytest.mark.parametrize("column", ["registers", "ratio"])
@pytest.mark.parametrize("relation", ["{} < 1", "not {} < 1", "{} != 1", "{} == {}", "{} / 0 > 1", "-{} > -1000"])
def test_an_unknown_number_makes_neither_a_condition_true_nor_its_opposite(column, relation):
    assert not ask(relation.format(column, column))[1]


def test_what_does_not_rest_on_the_unknown_number_is_told_all_the_same():
    assert ask("registers > 32 or M == 64") == [False, True, True]


@pytest.mark.parametrize(
    "expression, says",
    [
        ("M <=", "invalid syntax"),
        ("", "cannot be an empty string"),
        ("M", "this is not a condition"),
        ("M + 1", "this is not a condition"),
        ("provider", "this is not a condition"),
        ("1 < 2", "this is not a condition"),
        ("(M > 1).any()", "this is not a condition"),
        ("M[M > 1] > 1", "this is not a condition on each row"),
        ("M = 3", "this is not a condition"),
        ("found = M > 3", "this is not a condition"),
        ("m <= 64", "name 'm' is not defined"),
        ("provider > 3", ("Invalid comparison", "not supported between instances")),  # with pyarrow, and without
        ("M > 1\nM > 2", "Multi-line expressions"),
        ("M > @secret", "local variable 'secret' is not defined"),
        ("M > @table", "local variable 'table' is not defined"),
        ("M > @expression", "local variable 'expression' is not defined"),
        ("M > @pd", "local variable 'pd' is not defined"),
        ("M > @TYPE_CHECKING", "local variable 'TYPE_CHECKING' is not defined"),  # of the module that evaluates
        ("provider.str.contains('a\\n(')", "missing )"),  # pyarrow quotes the pattern, line break and all
        ("M > secret", "name 'secret' is not defined"),
        ("@__import__('os').getpid() > M", "is not a supported function"),
        ("__import__('os').getpid() > M", "is not a supported function"),
    ],
)
def test_anything_else_is_one_line_with_the_way_out(expression, says):
    with pytest.raises(UsageError) as raised:
        ask(expression)
    message = str(raised.value)
    assert message.startswith(f"--filter {expression!r}: ")
    assert any(words in message for words in ((says,) if isinstance(says, str) else says))
    assert message.endswith('; write conditions over M, provider, such as "M <= 64"')
    assert "\n" not in message


def test_what_conditions_are_over_can_be_said_in_words():
    with pytest.raises(UsageError, match=r"^--claim 'X': .*; write conditions over the columns of a\.csv, such as \"M"):
        rows_where(table(), "X", "--claim", "the columns of a.csv", "M <= 64")


def test_an_empty_table_has_no_rows_for_which_it_holds():
    assert len(rows_where(table().iloc[:0], "M > 1", "--filter", ["M"], "M <= 64")) == 0


def test_the_table_stays_as_it_was():
    frame = table()
    rows_where(frame, "ratio > 1", "--filter", ["ratio"], "ratio > 1")
    pd.testing.assert_frame_equal(frame, table())


@given(st.lists(st.one_of(st.none(), st.floats(-8, 8)), min_size=1), st.floats(-8, 8))
def test_of_a_condition_and_its_opposite_exactly_one_holds_where_the_number_is_known(values, bound):
    frame = pd.DataFrame({"x": pd.Series(values, dtype="float64")})
    above = rows_where(frame, f"x > {bound!r}", "--filter", ["x"], "x > 1")
    not_above = rows_where(frame, f"not x > {bound!r}", "--filter", ["x"], "x > 1")
    assert list(above) == [value is not None and value > bound for value in values]
    assert list(not_above) == [value is not None and not value > bound for value in values]
