"""Reasons that differ in nothing but the sizes of a problem are one reason to a reader."""

import re
from collections.abc import Iterable

_SIZE = re.compile(r"\b(B|E|top_k|M|N|K)=(\d+)\b")


def kind(reason: str) -> str:
    """Return what reasons of one kind have in common: the text without the values of its sizes."""
    return _SIZE.sub(r"\1=", reason)


def merged(reasons: Iterable[str]) -> str:
    """Write reasons of one kind as one, each size as the range of its values: "M=1..64 N=768 is not taken"."""
    told = list(dict.fromkeys(reasons))
    columns = zip(*([int(size) for _, size in _SIZE.findall(reason)] for reason in told), strict=True)
    ranges = iter([f"{min(sizes)}..{max(sizes)}" if len(set(sizes)) > 1 else str(sizes[0]) for sizes in columns])
    return _SIZE.sub(lambda size: f"{size[1]}={next(ranges)}", told[0])


def grouped(reasons: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group (name, reason) pairs: each kind of reason, merged, with its names in their order, each once."""
    found: dict[str, tuple[dict[str, None], list[str]]] = {}
    for name, reason in reasons:
        names, told = found.setdefault(kind(reason), ({}, []))
        names[name] = None
        told.append(reason)
    return {merged(told): list(names) for names, told in found.values()}
