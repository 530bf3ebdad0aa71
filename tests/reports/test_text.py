"""Plain text: aligned, within its width, nothing lost but what it says it leaves out, no codes unless asked for."""

import re

from rooflens.reports.model import (
    Bullets,
    CodeBlock,
    Column,
    Report,
    Scale,
    Section,
    Table,
    TableCell,
    Text,
    Tone,
)
from rooflens.reports.render import text

from .handmade import figure, grid, report


def lines(*blocks, width=80, colour=False, **more):
    tree = Report("r", (), (Section("s", "S", blocks, **more),), "g")
    return text.render(tree, width, colour).splitlines()


def test_numbers_stand_below_each_other_with_and_without_a_footnote():
    told = lines(grid())
    header = next(number for number, line in enumerate(told) if line.startswith("shape"))
    assert told[header : header + 4] == [
        "shape                             M=1       M=8",
        "llama2-7b gate/up              44.80×  1.08×[1]",
        "a|b <script>alert(1)</script>   0.43×    oom[2]",
        "NA                              1.00×    oom[2]",
    ]
    assert "[1] the interval includes 1" in told
    assert "[2] out of memory: 3 GiB asked, 1 GiB free" in told


def test_a_grid_that_is_wider_than_the_page_keeps_its_rows_whole():
    heads = (Column("shape", is_text=True), *(Column(f"M={number}") for number in range(24)))
    row = (TableCell("model layer"), *(TableCell(f"1.{number:02d}×") for number in range(24)))
    told = lines(Table("t", "T", heads, (row,)), width=60)
    assert next(line for line in told if line.startswith("model layer")).split()[2:] == [one.text for one in row[1:]]


def test_texts_wrap_within_the_width_and_commands_never_do():
    command = "rooflens run llm4bit " + "--filter 'N == 512' " * 10
    told = lines(Text("word " * 60), Bullets(("item " * 30, "b"), (True, False)), CodeBlock(command), width=50)
    assert f"    {command}" in told
    assert max(len(line) for line in told if not line.startswith("    ")) <= 50
    assert "- [x] item item item item item item item item item" in told[:99]
    assert "- [ ] b" in told


def test_two_columns_of_one_name_keep_their_texts():
    columns = (Column("who", is_text=True), *(Column("at", is_text=True) for _ in range(2)))
    table = Table("t", "T", columns, ((TableCell("x"), TableCell("first " * 9), TableCell("second " * 9)),))
    told = " ".join(" ".join(lines(table, width=50)).split())
    assert "at: first first" in told
    assert "at: second second" in told
    assert "\N{ZERO WIDTH SPACE}" not in told


def test_details_are_left_out_by_name_and_figures_keep_their_finding():
    told = "\n".join(lines(grid("t", detail=True), figure()))
    assert "Details in the page and the markdown: simt_4bit <b>&</b> friends." in told
    assert "44.80×" not in told
    assert told.count("simt_4bit is faster at small M") == 1


def test_colours_only_when_asked_for_and_alignment_is_the_same():
    cells = (
        TableCell("2.00×", 2.0, 1.0),
        TableCell("0.50×", 0.5, -1.0),
        TableCell("~1×", 1.0, 0.0, tone=Tone.UNDECIDED),
    )
    columns = tuple(Column(f"M={number}", scale=Scale.DIVERGING) for number in range(3))
    table = Table("t", "T", columns, (cells, (cells[0], cells[1], TableCell("oom", tone=Tone.FAILED))))
    bare, coloured = lines(table), lines(table, colour=True)
    assert "\x1b" not in "".join(bare)
    assert [re.sub("\x1b\\[[0-9;]*m", "", line) for line in coloured] == bare
    row = next(line for line in coloured if "~1×" in line)
    assert "\x1b[34m2.00×\x1b[0m" in row
    assert "\x1b[31m0.50×\x1b[0m" in row


def test_no_name_steers_the_terminal():
    table = Table("t", "T", (Column("a", is_text=True),), ((TableCell("\x1b[31mred\x07"),),))
    told = "\n".join(lines(table, CodeBlock("echo \x1b[2J")))
    assert not re.search("[\x00-\x09\x0b-\x1f]", told)
    assert "[31mred" in told


def test_the_digest_is_the_block_that_the_report_has_for_it():
    short = CodeBlock("fwd : 1470.1 -> 1483.6 (+0.92%)", "text", digest=True)
    tree = Report("r", (), (Section("s", "S", (CodeBlock("other"), short)),), "g")
    assert text.render_digest(tree) == "fwd : 1470.1 -> 1483.6 (+0.92%)\n"


def test_without_one_it_is_the_headline_in_72_columns():
    told = text.render_digest(report()).splitlines()
    assert told[0] == "A report | of <everything>"
    assert "best speedup: 44.80×" in told
    assert max(map(len, told)) <= text.DIGEST_WIDTH
    assert told[-1] == "rooflens test from runs/r-1"
