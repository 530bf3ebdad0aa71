"""Tables with a header are found in every form in which people print them, with their titles and lines."""

import pytest
from rooflens.analysis.imports.text import LONGEST_LINE, tables_in
from rooflens.shapes.errors import UsageError

HEADER = ("M", "N", "K", "Old (ms)", "New (ms)", "Speedup")
ROWS = (("4096", "4096", "1024", "1.50", "0.75", "2.00x"), ("8192", "4096", "1024", "3.00", "1.60", "1.88x"))


def tables(text, name="text"):
    return tables_in(text.encode(), name)


def lines(separator):
    return "\n".join(separator.join(row) for row in (HEADER, *ROWS)) + "\n"


def markdown():
    return "\n".join(f"| {' | '.join(row)} |" for row in (HEADER, ("---",) * 6, *ROWS)) + "\n"


FORMS = {
    "comma": lines(","),
    "semicolon": lines(";"),
    "tab": lines("\t"),
    "aligned": lines("   "),
    "markdown": markdown(),
    "bare markdown": "\n".join(" | ".join(row) for row in (HEADER, (":--",) * 6, *ROWS)) + "\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_table_in_a_longer_text(form):
    text = (
        f"# A change\n\nIt is faster, as said, by far.\n\n## Results on one device\n\n{FORMS[form]}\nThanks to all.\n"
    )
    (found,) = tables(text)
    assert found.header == HEADER
    assert found.rows == ROWS
    assert found.title == "Results on one device"
    listed = text.splitlines()
    assert [listed[at - 1] for at in found.lines] == [one for one in listed if "1.50" in one or "1.60" in one]
    assert "Old (ms)" in "".join(listed[found.line - 2 : found.line + 1])


def test_several_tables_with_prose_between_them():
    text = f"One\n\n{FORMS['markdown']}\nSome words\nof prose.\n\nTwo:\n\n{FORMS['aligned']}"
    assert [found.title for found in tables(text)] == ["One", "Two"]


def test_a_first_column_without_a_name():
    (found,) = tables("  | m | n | k | us\n-- | -- | -- | -- | --\n0 | 1 | 64 | 32 | 1.5\n1 | 2 | 64 | 32 | 2.5\n")
    assert found.header == ("", "m", "n", "k", "us")
    assert found.rows[1] == ("1", "2", "64", "32", "2.5")


def test_a_frame_as_pandas_prints_it():
    (found,) = tables("   batch  torch-us  triton-us\n0      1     2.915      5.234\n1     16    47.192     88.392\n")
    assert found.header == ("index", "batch", "torch-us", "triton-us")
    assert found.rows[1] == ("1", "16", "47.192", "88.392")


def test_a_simple_table_of_restructured_text():
    rule = "====  ======"
    (found,) = tables("\n".join((rule, "M     ms", rule, "1     2.5", "1024  OOM", rule)) + "\n")
    assert (found.header, found.rows) == (("M", "ms"), (("1", "2.5"), ("1024", "OOM")))


@pytest.mark.parametrize(
    "text",
    [
        "We measured 3 shapes on 2 devices and saw 5 wins.\n• all 83 shapes are ≥ +1% faster\n",
        "A list, with commas, and more\nof them, here, too\n",
        "M N K TFLOPS\n16 4096 4096 1.5\n32 4096 4096 2.5\n",  # one blank may be inside a name
        "bs=1: 0.813 s\nbs=8: 0.913 s\nbs=16: 1.013 s\n",
        "M: 16, time: 62.1 us, TFLOPS: 1.06\nM: 32, time: 62.2 us, TFLOPS: 2.12\n",
        "Model:  llama\nBatch:  16\nLatency:  1.5 ms\n",
    ],
)
def test_what_has_no_header_is_no_table(text):
    with pytest.raises(
        UsageError, match=r"text has no table with a header that can be read; write it as CSV: M,N,K,provider,time_us"
    ):
        tables(text)


def test_what_cannot_be_read():
    for content, name, words in (
        (b" \n", "nothing", "is empty"),
        (b"\xff\xfe\x00", "binary", "not a text"),
        (b"M,N,K\n1,2,3\n1\n", "torn.csv", r"torn\.csv line 3"),
        (b"x" * (LONGEST_LINE + 1), "long.md", "line 1 has more than 100000 characters"),
    ):
        with pytest.raises(UsageError, match=words):
            tables_in(content, name)
