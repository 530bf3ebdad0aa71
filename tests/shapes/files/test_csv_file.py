"""CSV that is damaged or hostile: records with their lines, or one line with file, line and way out."""

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rooflens.shapes.errors import UsageError
from rooflens.shapes.files.csv_file import csv_text, records, rows, split

FIELDS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r"), max_size=20)


@given(st.lists(st.lists(FIELDS, min_size=2, max_size=3), min_size=1, max_size=5))
def test_what_csv_writes_comes_back_with_its_lines(table):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    found = list(records(text.getvalue().encode("utf-8-sig"), "a.csv"))
    assert [fields for _, fields in found] == table
    lines = 1
    for (line, _), row in zip(found, table, strict=True):
        assert line == lines
        lines += 1 + sum(field.count("\n") for field in row)


@pytest.mark.parametrize(
    "content, says",
    [
        (b"a,b\n1," + b"x" * 140_000 + b"\n", "a.csv line 2: a field of more than 131072 characters"),
        (b'a,b\n1,2\n"3,4\n', "a.csv line 3: a quote is not closed"),
        (b'a,b\n1,2\n3,"4"5\n', "a.csv line 3: ',' expected after '\"'"),
        (b"a,b\n1,2\n3,\xff\n", "a.csv line 3: not a text file in UTF-8"),
        (b"a,b\n1,2\n3\n", "a.csv line 3: 1 fields instead of 2"),
        (b"a,d\n1,2\n", "a.csv line 1: column 'b' is missing"),
        (b"a,b,b\n1,2,3\n", "a.csv line 1: column 'b' appears twice"),
        (b"", "a.csv line 1: column 'a' is missing"),
        (b"a,b," + b"c" * 1000 + b"\n1,2,3\n", "a.csv line 1: unknown column 'cccc"),
    ],
)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "by lines"])
def test_anything_else_is_one_line(content, says, whole):
    with pytest.raises(UsageError) as raised:
        list(rows(content if whole else io.BytesIO(content), "a.csv", ("a", "b"), ("a", "b", "d")))
    assert str(raised.value).replace("a text in", "a text file in").startswith(says)
    assert len(str(raised.value)) < 250
    assert "\n" not in str(raised.value)


def test_rows_are_named_and_empty_lines_left_out():
    assert [tuple(row) for row in rows("a,b\n\n1,2\n\n3,\n", "a.csv")] == [
        (3, {"a": "1", "b": "2"}),
        (5, {"a": "3", "b": ""}),
    ]


def test_lines_that_cannot_be_a_table_have_no_fields():
    assert split(['a,"b'], ",") == [["a", "b"]]
    assert split(["a," + "x" * 140_000], ",") == []


@given(st.text(st.sampled_from("'=+-@\tx1.e ,\"")) | st.text(st.characters(exclude_categories=("Cs",)), max_size=10))
@example("\r")
@example("a\rb\r\nc\n")
def test_no_text_is_a_formula_and_each_comes_back(text):
    written = csv_text(["name"], [[text, 1.5, -3, None]])
    _, (shown, *numbers) = csv.reader(io.StringIO(written, newline=""))
    if shown[:1] in tuple("=+-@\t\r"):
        float(shown)  # a number, which needs no mark
    assert numbers == ["1.5", "-3", ""]
    (_, (back, *_)) = list(records(written, "a.csv"))[1]
    assert back == text


@pytest.mark.parametrize(
    "text, written",
    [("=1+1", "'=1+1"), ("'=1", "''=1"), ("-1.5e-3", "-1.5e-3"), ("'quoted'", "'quoted'"), ("a=b", "a=b")],
)
def test_what_a_spreadsheet_would_compute_is_marked_as_text(text, written):
    assert csv_text(None, [[text]]) == f"{written}\n"
