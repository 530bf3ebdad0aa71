"""A policy as JSON, and back: what a program reads, and what a later run is compared with.

{"format": "rooflens dispatch", "version": 2, "policy", "arch", "incumbent", "provenance": {...}, "rules": [...]}, where
each of the rules is

    {"op", "pass", "dtype", "scheme", "B", "E", "top_k", "N", "K",
     "by_M": [{"M", "arm", "status", "best", "gain", "low"}]}

Rules for every shape have no sizes. The row of the smallest M at or above the asked one decides, beyond the last the
incumbent runs.
"""

import json
from dataclasses import asdict
from typing import Any

from ...shapes.errors import UsageError, quote
from ...shapes.files.json_file import parse_object
from .policy import Entry, EntryStatus, Policy, Rows
from .provenance import Provenance
from .timings import SETTING, SHAPE, Setting, Shape

FORMAT = "rooflens dispatch"
VERSION = 2


def plain(policy: Policy, provenance: Provenance) -> dict[str, Any]:
    """A policy with where it comes from, as values of JSON."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "policy": policy.name,
        "arch": policy.arch,
        "incumbent": policy.incumbent,
        "provenance": asdict(provenance),
        "rules": [
            dict(zip((*SETTING, *SHAPE), (*setting, *(shape or ())), strict=False))
            | {"by_M": [_row(size, entry) for size, entry in rows]}
            for setting, rule in policy.rules.items()
            for shape, rows in rule.items()
        ],
    }


def emit_json(policy: Policy, provenance: Provenance) -> str:
    """Write `plain`."""
    return json.dumps(plain(policy, provenance), indent=1, allow_nan=False) + "\n"


def parse_policy(content: bytes, where: str) -> Policy:
    """Read what `emit_json` wrote. Raises UsageError that names the place."""
    found = parse_object(content, where, "give a file of rooflens dispatch --emit json")
    if found.get("format") != FORMAT:
        raise UsageError(f"{where}: not a policy; give a file of rooflens dispatch --emit json")
    if found.get("version") != VERSION:
        raise UsageError(f"{where}: version {quote(found.get('version'))}, and {VERSION} is known: emit it again")
    try:
        rules: dict[Setting, dict[Shape | None, Rows]] = {}
        for one in found["rules"]:
            op, pass_, dtype, scheme = (str(one[name]) for name in SETTING)
            shape: Shape | None = None
            if "N" in one:
                b, e, top_k, n, k = (int(one[name]) for name in SHAPE)
                shape = b, e, top_k, n, k
            rows = sorted(((int(row["M"]), _entry(row)) for row in one["by_M"]), key=lambda row: row[0])
            rules.setdefault((op, pass_, dtype, scheme), {})[shape] = tuple(rows)
        return Policy(str(found["policy"]), str(found["arch"]), str(found["incumbent"]), rules)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"{where}: a rule is broken ({type(error).__name__}: {error}): emit it again") from None


def _row(size: int, entry: Entry) -> dict[str, Any]:
    named: dict[str, Any] = {"M": size, "arm": entry.arm, "status": str(entry.status), "best": entry.best}
    return named | {"gain": _rounded(entry.gain), "low": _rounded(entry.low)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 6)


def _entry(row: dict[str, Any]) -> Entry:
    numbers = {name: None if row[name] is None else float(row[name]) for name in ("gain", "low")}
    return Entry(str(row["arm"]), EntryStatus(row["status"]), str(row["best"]), **numbers)
