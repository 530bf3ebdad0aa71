"""Characters that nobody sees are written out; what people write stays."""

import pytest
from rooflens.reports.model import Report, Section, Text
from rooflens.reports.render import html
from rooflens.reports.render.visible import visible


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a\u202eb", "a[U+202E]b"),
        ("a\x00b\x1b[31mc", "a[U+0000]b[U+001B][31mc"),
        ("half \ud83d", "half [U+D83D]"),
        ("\ufeffkernel", "[U+FEFF]kernel"),
        ("mar\u200blin\u2060", "mar[U+200B]lin[U+2060]"),
        ("mar\u00adlin", "mar[U+00AD]lin"),
        ("mine\U000e0041", "mine[U+E0041]"),
        ("שלום", "שלום"),
        ("👩\u200d🔬 ×µ−", "👩\u200d🔬 ×µ−"),
        ("two\n\tlines", "two\n\tlines"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text, expected):
    assert visible(text) == expected


def test_a_page_is_bytes_whatever_a_name_holds():
    report = Report("half \ud83d", (), (Section("a", "A", (Text("\u202egnp.exe"),)),), "g")
    page = html.render(report)
    assert page.encode("utf-8")
    assert "[U+202E]gnp.exe" in page
