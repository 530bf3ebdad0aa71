"""The time of an audit is linear in its text, and what is too long for it is refused or named."""

import gc
import time

import pytest
from audit_scaling import HOSTILE, cpu_seconds
from rooflens.cli.main import main
from rooflens.plugins.audit.reading.annotated_table import numbers_of
from rooflens.plugins.audit.reading.assumptions import devices_in, devices_of_cell
from rooflens.plugins.audit.reading.document import LARGEST, LONGEST_LINE, WIDEST, read_document
from rooflens.plugins.audit.reading.printed import read_printed
from rooflens.shapes.errors import UsageError

from .helpers import audited

SHORT = 10_000

TIMES = 4

GROWTH = 2.4
"""What 4 times the text may take beyond 4 times as long: a quadratic cost takes 4 times that."""

FLOOR_S = 0.02
"""Less is what an audit takes for a few lines, and the noise of the clock."""

TABLE = "| a | ms |\n|---|---|\n| x | 1 |\n| y | 2 |\n"


@pytest.mark.parametrize("name", HOSTILE)
def test_four_times_the_text_takes_four_times_as_long(name):
    short, long = HOSTILE[name](SHORT), HOSTILE[name](TIMES * SHORT)
    gc.collect()
    for _ in range(2):  # a busy machine disturbs one of them, a quadratic cost is there in both
        base = max(cpu_seconds(short), FLOOR_S)
        if cpu_seconds(long) <= GROWTH * base * len(long) / len(short):
            return
    pytest.fail(f"{name}: more than {GROWTH * len(long) / len(short):.1f} times as long")


def test_ten_times_the_rows_of_a_column_take_ten_times_as_long():
    """Longer than the texts above, at which what is quadratic in the rows of a column does not show."""

    def seconds(count):
        texts = [f"1.{at}" for at in range(count)]
        read_printed.cache_clear()
        start = time.process_time()
        numbers_of(texts)
        return time.process_time() - start

    assert min(seconds(20_000) for _ in range(2)) < 25 * min(seconds(2000) for _ in range(3))


@pytest.mark.parametrize("read", [devices_in, devices_of_cell])
def test_a_long_word_is_searched_once_for_a_device(read):
    """A claim on the command line has no limit."""
    start = time.process_time()
    assert read("MI300X " + 100_000 * "x") == read("MI300X")
    assert time.process_time() - start < 2.0, "from every letter to the end takes half a minute"


def test_a_text_above_the_limit_is_refused_with_its_size():
    with pytest.raises(UsageError, match=r"^big\.md has 4\.2 MB, and at most 4 MB are read; give the part"):
        read_document(b"x" * (LARGEST + 1), "big.md")


def test_a_line_above_the_limit_is_left_out_and_named(tmp_path, capsys):
    text = "word " * (LONGEST_LINE // 5) + "word\n\n" + TABLE
    document = read_document(text.encode(), "t.md")
    assert document.unread == (1,)
    assert [len(one.table) for one in document.tables] == [2]
    (tmp_path / "t.md").write_text(text, encoding="utf-8")
    assert main(["audit", str(tmp_path / "t.md")]) == 0
    assert "note: not read: t.md line 1, too long or a table too wide" in capsys.readouterr().err


def test_a_line_at_the_limit_is_read():
    assert read_document(("x" * LONGEST_LINE + "\n\n" + TABLE).encode(), "t.md").unread == ()


def test_a_table_that_would_have_more_cells_than_characters_is_left_out():
    text = "|" * 95 + "\n|---|---|\n" + "|1|\n" * 500 + "\n" + TABLE
    document = read_document(text.encode(), "t.md")
    assert document.unread == tuple(range(1, 503))
    assert [titled.line for titled in document.tables] == [504]


def test_merged_cells_that_would_fill_more_cells_than_there_are_characters_are_left_out():
    text = "<table>" + '<tr><td colspan="90">1</td></tr>\n' * 200 + "</table>\n\n" + TABLE
    document = read_document(text.encode(), "t.md")
    assert document.unread == tuple(range(1, 202))
    assert len(document.tables) == 1


def test_csv_wider_than_the_limit_is_refused():
    text = ",".join(["ms"] * (WIDEST + 1)) + "\n" + ",".join(["1"] * (WIDEST + 1)) + "\n"
    with pytest.raises(UsageError, match="has 101 columns, and at most 100 are read"):
        read_document(text.encode(), "wide.csv")


def test_a_table_inside_another_is_the_one_that_is_read():
    inner = "<table>\n<tr><td>M</td><td>ms</td></tr>\n<tr><td>1</td><td>2</td></tr>\n</table>"
    document = read_document(f"<table><tr><td>\n{inner}\n</td></tr></table>\n".encode(), "t.md")
    assert [titled.table.header for titled in document.tables] == [("M", "ms")]


def test_a_number_of_many_digits_is_no_number_and_no_crash():
    claim = "9" * 5000 + "/84 shapes >= +1% on fwd, " + "9" * 5000 + " TFLOPS is 60% of peak"
    start = time.process_time()
    assert audited("", "MI300X", claims=[claim]).findings == ()
    assert time.process_time() - start < 2
