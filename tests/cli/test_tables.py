"""Tables on stdout: what stays on its line at which width, what is said once, and that nothing is lost."""

import re

import pytest
from rooflens.cli.shared.tables import print_table
from rooflens.reports.render.layout import TextTable, lay_out

NAMES = ("shape", "provider", "verified time", "remark")
ROWS = [
    ["llama2-7b q/k/v/o (4096x4096)", "simt_4bit", "12.5 us", "the incumbent is verified faster at no M"],
    ["llama2-7b q/k/v/o (4096x4096)", "bitsandbytes_gemm", "8 us", ""],
    [
        "gpt-oss o (2880x4096)",
        "simt_4bit",
        "",
        "something moved while it was measured: stop other work and measure again",
    ],
]


def shown(width, rows=ROWS, long=("remark",), heading=("shape",)):
    header, body = lay_out(TextTable(NAMES, [list(row) for row in rows]), width, long, heading)
    return [*header, *body]


def test_a_header_of_several_words_stacks_and_a_long_text_wraps_in_its_column_when_it_has_room():
    assert shown(110) == [
        "                                                  verified",
        "shape                          provider               time  remark",
        "llama2-7b q/k/v/o (4096x4096)  simt_4bit           12.5 us  the incumbent is verified faster at no M",
        "llama2-7b q/k/v/o (4096x4096)  bitsandbytes_gemm      8 us",
        "gpt-oss o (2880x4096)          simt_4bit                    something moved while it was measured: stop other",
        "                                                            work and measure again",
    ]


def test_what_rows_have_in_common_goes_above_them_last_of_all():
    assert shown(44) == [
        "shape",
        "                       verified",
        "    provider               time",
        "        remark",
        "llama2-7b q/k/v/o (4096x4096)",
        "    simt_4bit           12.5 us",
        "        the incumbent is verified faster at",
        "        no M",
        "    bitsandbytes_gemm      8 us",
        "gpt-oss o (2880x4096)",
        "    simt_4bit",
        "        something moved while it was",
        "        measured: stop other work and",
        "        measure again",
    ]


def test_no_width_breaks_or_loses_a_word_or_is_exceeded():
    words = " ".join(cell for row in ROWS for cell in row).split()
    for width in (1, 10, 20, 31, 40, *range(45, 160)):
        lines = shown(width)
        for word in words:
            assert re.search(rf"(?<!\S){re.escape(word)}(?!\S)", "\n".join(lines)), (width, word)
        assert width < 45 or max(map(len, lines)) <= width
    assert len(shown(200)) == 1 + len(ROWS)  # what fits is one line a row


def test_of_several_long_texts_the_first_leaves_its_row_first():
    wide = TextTable(("a", "b", "c"), [["x", "b" * 20, "c" * 30]])
    assert lay_out(wide, 40, ("c", "b")) == (["a  b", "    c"], [f"x  {'b' * 20}", f"    {'c' * 30}"])
    assert lay_out(wide, 40, ("b", "c")) == (["a  c", "    b"], [f"x  {'c' * 30}", f"    {'b' * 20}"])


def test_several_long_texts_are_named_under_their_row():
    header, body = lay_out(TextTable(("a", "b", "c"), [["x", "long " * 8 + ".", "text " * 8 + "."]]), 38, ("b", "c"))
    assert header == ["a"]
    assert body == [
        "x",
        "    b: long long long long long long",
        "    long long .",
        "    c: text text text text text text",
        "    text text .",
    ]


def test_constants_are_said_once_and_unknown_long_columns_not_at_all(capsys):
    rows = [("a", "bf16", 1, ""), ("b", "bf16", 2, "")]
    print_table(("name", "dtype", "M", "remark"), rows, "title", once=("dtype", "M"), long=("remark",))
    assert capsys.readouterr().out.splitlines() == ["title", "dtype bf16", "name  M", "a     1", "b     2"]
    print_table(("dtype", "cache"), [("bf16", "cold")], once=("dtype", "cache"))
    assert capsys.readouterr().out == "dtype bf16, cache cold\n"
    print_table(("name", "count"), [])
    assert capsys.readouterr().out.split() == ["name", "count"]


def test_what_is_said_once_is_wrapped_between_its_parts(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "42")
    print_table(("name", "model", "cache"), [("a", "m" * 20, "cold and more")], once=("model", "cache"))
    assert capsys.readouterr().out.splitlines() == [f"model {'m' * 20},", "cache cold and more", "name", "a"]


def test_in_a_pipe_it_is_plain_aligned_and_unwrapped(capsys):
    long = "x" * 300
    print_table(("name", "count", "text"), [("a", 1, long), ("[b]", None, "")], long=("text",))
    assert capsys.readouterr().out.splitlines() == ["name  count  text", f"a         1  {long}", "[b]"]


def test_wide_characters_count_twice(capsys):
    print_table(("a", "b"), [("模型", "x"), ("abcd", "y")])
    assert capsys.readouterr().out.splitlines() == ["a     b", "模型  x", "abcd  y"]


@pytest.mark.parametrize(
    ("cells", "right"),
    [
        (["1", ""], True),
        (["58.56 µs", "1.8 ms"], True),
        (["< 0.1 %", "16%"], True),
        (["6.4×", "-3"], True),
        (["1 8 64", "1"], False),
        (["fwd", "1"], False),
        (["2 / 4", "0 / 4"], False),
        (["4096x4096", "4"], False),
        (["", ""], False),
    ],
)
def test_numbers_are_aligned_to_the_right(cells, right):
    _, body = lay_out(TextTable(("a header",), [*([cell] for cell in cells), ["9" if right else ""]]), 80)
    assert all(line == line.rjust(8) for line in body if line.strip()) is right or not any(cells)
