"""The text of a `disturbed` column: causes joined by `; `, and the worst of several such texts."""

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def worst(texts: Iterable[str]) -> str:
    """Join the causes of all `texts`; of causes that differ in their numbers only, the worst is told.

    That is the widest range of "from A to B", and the largest first number of anything else. Causes stand in the order
    in which their kinds are met; "" when nothing disturbed.
    """
    causes: dict[str, str] = {}
    for text in texts:
        for cause in filter(None, text.split("; ")):
            which = kind(cause)
            causes[which] = max(causes.get(which, cause), cause, key=_severity)
    return "; ".join(causes.values())


def kind(cause: str) -> str:
    """Return a cause without its numbers, and in the singular."""
    return _NUMBER.sub("#", cause).replace("processes", "process")


def _severity(cause: str) -> float:
    first, *rest = [*map(float, _NUMBER.findall(cause)), 0.0]
    return rest[0] - first if " from " in cause else first
