"""The numbers behind figures as links inside a page: data URIs, as long as they stay small."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from ..formatting import plural
from .chart import Data, Figure

MOST_EACH, MOST_TOGETHER = 40_000, 160_000
"""Characters of a link, and of all links of a page."""


def links(figures: Iterable[Figure]) -> Mapping[str, str]:
    """Return figure id -> data URI of its CSV, the first figures of the page first, as far as there is room."""
    found: dict[str, str] = {}
    left = MOST_TOGETHER
    for figure in figures:
        if figure.data is None:
            continue
        link = data_uri(figure.data)
        if len(link) <= min(MOST_EACH, left):
            found[figure.id] = link
            left -= len(link)
    return found


def data_uri(data: Data) -> str:
    """Write a table as a link that holds its CSV, in the shorter of two encodings."""
    text = data.csv()
    plain = f"data:text/csv;charset=utf-8,{quote(text, safe=',./:;()=+*~!@')}"
    encoded = f"data:text/csv;charset=utf-8;base64,{b64encode(text.encode()).decode()}"
    return min(plain, encoded, key=len)


def rows_of(data: Data) -> str:
    """Say how many rows a table has."""
    return plural(len(data.rows), "row")
