"""Conditions of the user's own, over tables made here; what is true of each row is told by Python."""

import time
import tracemalloc
from contextlib import suppress

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

PIECES = (
    *("M", "provider", "registers", "3", "'blas'", "==", "<", "in", "not", "and", "or", "(", ")", "[", "]"),
    *(",", ".", ".str.contains", "`", "+", "**", "lambda", ":", "@", "$", "\\"),
)

ATTACKS = (
    "M.map.__globals__['sys'].modules['os'].system('touch {}')",
    "M.to_csv('{}')",
    "M.values.tofile('{}')",
    "@__import__('pathlib').Path('{}').touch() == M",
    "__import__('pathlib').Path('{}').touch() == M",
    "(lambda: open('{}', 'w'))() == M",
    "[open('{}', 'w') for _ in [1]] == M",
    "M == open('{}', 'w')",
    "provider.str.startswith(open('{}', 'w'))",
    "provider.str.__class__.__init__.__globals__['pd'].io.common.os.mkdir('{}')",
)


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
        ("M == [1, 4096]", [True, False, True]),
        ("provider.str.startswith('mine')", [False, True, True]),
        ("provider.str.endswith('@2') or provider.str.contains('la')", [True, False, True]),
        ("provider.str.contains('.')", [False, False, False]),  # a text, no pattern
        ("provider in ['blas', 'mine']", [True, True, False]),
        ("provider not in ('blas', 'mine')", [False, False, True]),
        ("M != [1, 64] & provider > 'm'", [False, False, True]),
        ("M == 1 | M == 64", [True, True, False]),
        ("1 < M <= 64", [False, True, False]),
        ("~(M > 64) and `M` // 2 % 3 == 2", [False, True, False]),
        ("provider == 'a & `b`' or M in []", [False, False, False]),
        ("M * 2 == registers + 62 or ratio > 1", [False, False, True]),
        ("M == 1and M <= 64", [True, False, False]),  # Python warns
    ],
)
def test_a_condition_is_told_for_each_row(expression, holds):
    assert ask(expression) == holds


@pytest.mark.parametrize("expression", ["pass == 'step'", "`pass` == 'step'", "not pass != 'step' and M == 1"])
def test_a_pass_is_a_column_although_the_word_is_a_statement(expression):
    rows = table().assign(**{"pass": ["step", "fwd", "pass == 'step'"]})
    assert list(rows_where(rows, expression, "--filter", [], "")) == [True, False, False]


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
        ("", "this is empty"),
        ("M", "this is a number, not a condition"),
        ("provider", "this is a text, not a condition"),
        ("1 < 2", "names no column"),
        ("(M > 1).any()", "'(M > 1).any()' is not allowed"),
        ("M[M > 1] > 1", "'M[M > 1]' is not allowed"),
        ("m <= 64", "there is no column 'm'"),
        ("provider > 3", "a text and a number cannot be compared"),
        ("(M > 1) > (M > 2)", "a condition and a condition cannot be compared"),
        ("M in 3", "'3' is not a list"),
        ("M > [1, 2]", "'[1, 2]' is a list"),
        ("provider + 'x' == 'y'", "'provider' is a text, not a number"),
        ("M > 1\nM > 2", "not a single line"),
        ("M > @secret", "invalid syntax"),
        ("M > secret", "there is no column 'secret'"),
        ("M > None", "'None' is not a number and not a text"),
        ("provider.str.contains(provider)", "is not allowed"),
        ("M.str.contains('mine')", "'M' is a number, not a text"),
        ("M > 1" + "0" * 400, "too large"),
        ("not " * 200 + "M > 1", "nested more than 50 levels"),
        ("-" * 3000 + "M > 1", "nested"),
        ("M > 1 or " * 1000 + "M > 1", "more than 4000 characters"),
        ("provider == '\udcff'", "not in the encoding of the terminal"),
    ],
)
def test_anything_else_is_one_line_with_the_way_out(expression, says):
    with pytest.raises(UsageError) as raised:
        ask(expression)
    message = str(raised.value)
    quoted = expression if len(expression) <= 80 else f"{expression[:80]}..."
    assert message.startswith(f"--filter {quoted!r}: ")
    assert says in message
    assert len(message) < 600
    assert message.endswith('; write conditions over M, provider, such as "M <= 64"')
    assert "\n" not in message


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_is_executed(attack, tmp_path):
    with pytest.raises(UsageError):
        ask(attack.format(tmp_path / "made"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "attack", ["9**9**9 == M", "M << 99999999999 > 1", "provider.str.contains('(a+)+$') or M > 1e9999"]
)
def test_nothing_takes_long(attack):
    """Of the last one the pattern is a text, and its number infinite."""
    began = time.monotonic()
    with suppress(UsageError):
        assert ask(attack) == [False, False, False]
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("attack", ["M in [" + "M," * 1990 + "]", "M > 1 or " * 440 + "M > 1"], ids=["list", "or"])
def test_a_long_condition_over_many_rows_reads_each_column_once_and_keeps_little(attack):
    """A list of the column itself, whose values would be gigabytes, and every part of a chain."""
    rows = pd.DataFrame({"M": range(50_000)})
    began = time.monotonic()
    tracemalloc.start()
    try:
        assert rows_where(rows, attack, "--filter", ["M"], "M <= 64").sum() >= 49_998
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < 20


@given(st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
def test_any_text_is_a_condition_or_refused_in_one_line(text):
    try:
        found = rows_where(table(), text, "--filter", ["M"], "M <= 64")
    except UsageError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
    else:
        assert found.dtype == bool


def numbers(depth):
    known = st.sampled_from(["M", "registers", "`ratio`"]) | st.integers(-99, 99).map(str)
    if depth == 0:
        return known
    deeper = numbers(depth - 1)
    return known | st.tuples(deeper, st.sampled_from(["+", "-", "*"]), deeper).map("({0[0]} {0[1]} {0[2]})".format)


def conditions(depth):
    relation = st.tuples(numbers(1), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), numbers(1))
    plain = relation.map("(M == M) and {0[0]} {0[1]} {0[2]}".format) | st.sampled_from(
        ["provider == 'mine'", "provider != 'blas'", "M in [1, 64]", "provider not in ['blas', 'x']"]
    )
    if depth == 0:
        return plain
    deeper = conditions(depth - 1)
    both = st.tuples(deeper, st.sampled_from(["and", "or"]), deeper).map("({0[0]} {0[1]} {0[2]})".format)
    return plain | both | deeper.map("not ({})".format)


@given(conditions(3))
def test_it_is_what_pandas_makes_of_it(expression):
    """With nullable columns, pandas has the same three values."""
    frame = table().astype({"ratio": "Float64", "M": "Int64"})
    expected = frame.eval(expression, engine="python", local_dict={}, global_dict={})
    assert ask(expression) == list(expected.fillna(False).astype(bool))


def test_what_conditions_are_over_can_be_said_in_words():
    with pytest.raises(UsageError, match=r"^--claim 'X': .*; write conditions over the columns of a\.csv, such as \"M"):
        rows_where(table(), "X", "--claim", "the columns of a.csv", "M <= 64")


def test_an_empty_table_has_no_rows_for_which_it_holds():
    assert len(rows_where(table().iloc[:0], "M > 1", "--filter", ["M"], "M <= 64")) == 0


def test_the_table_stays_as_it_was():
    frame = table()
    rows_where(frame, "ratio > 1", "--filter", ["ratio"], "ratio > 1")
    pd.testing.assert_frame_equal(frame, table())
