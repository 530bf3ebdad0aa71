"""Read back what a renderer wrote: tables of an HTML page and of a markdown text, as plain strings."""

import html
import re
from difflib import SequenceMatcher
from html.parser import HTMLParser
from itertools import combinations

from rooflens.reports.model import HowToRead


class Page(HTMLParser):
    """Tables (by the id of the element that holds them), ids, internal links, tags and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self._anchor, self._rows, self._skip = "", None, 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if "id" in attributes:
            self.ids.append(attributes["id"])
            if tag in ("div", "details"):
                self._anchor = attributes["id"]
        if tag == "a" and attributes.get("href", "").startswith("#"):
            self.links.append(attributes["href"][1:])
        if tag == "table":
            self._rows = self.tables.setdefault(self._anchor, [])
        elif self._rows is not None and tag == "tr":
            self._rows.append([])
        elif self._rows is not None and tag in ("td", "th"):
            self._rows[-1].append("")
        elif tag == "sup":
            self._skip += 1

    def handle_endtag(self, tag):
        if tag == "table":
            self._rows = None
        elif tag == "sup":
            self._skip -= 1

    def handle_data(self, data):
        if self._rows and self._rows[-1] and not self._skip:
            self._rows[-1][-1] += data.replace("\n", "")


def markdown_tables(text: str) -> list[list[list[str]]]:
    """Every pipe table of a markdown text, header first, unescaped, footnote markers removed."""
    tables: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|:") and not line.startswith("|-"):
            if not inside:
                tables.append([])
            inside = True
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            tables[-1].append([plain(cell) for cell in cells])
        elif not line.startswith("|"):
            inside = False
    return tables


def plain(markdown: str) -> str:
    """Text of an inline markdown fragment."""
    without_notes = re.sub(r"<sup>\d+</sup>", "", markdown).strip()
    without_bold = re.sub(r"^\*\*(.*)\*\*$", r"\1", without_notes)
    return html.unescape(re.sub(r"\\([\\`*\[\]|~#&$_+=-])", r"\1", without_bold))


def unfolded(text: str) -> list[str]:
    """Return the lines of a markdown that a reader sees at first: summaries stand for what they fold."""
    found, depth = [], 0
    for line in text.splitlines():
        if line.strip() and not depth and line != "</details>":
            found.append(line)
        depth += line.startswith("<details>") - line.startswith("</details>")
    return found


def nearly_equal_definitions(report):
    """Pairs of definitions of one chapter that a reader would have to compare word by word.

    What M counts may differ: it is another sentence for each pass and operation.
    """
    found = []
    for section in report.walk():
        items = [item for block in section.blocks if isinstance(block, HowToRead) for item in block.items]
        bare = [re.sub(r"M counts[^:]*: the FLOPs are [^.]*\.", "", item.partition(": ")[2] or item) for item in items]
        for (one, first), (other, second) in combinations(zip(items, bare, strict=True), 2):
            if first != second and SequenceMatcher(None, first, second, autojunk=False).ratio() > 0.8:
                found.append((one, other))
    return found
