"""A policy as JSON, and back: what a program reads, and what a later run is compared with.

{"format": "rooflens dispatch", "version": 1, "policy", "arch", "incumbent", "provenance": {...}, "rules": [...]}, where
each of the rules is {"op", "pass", "dtype", "scheme", "largest_M", "rule": RULE}, and RULE one of

    {"arm", "status", "best", "gain", "low", "cases"}                         run it
    {"feature", "limit", "low_side": RULE, "high_side": RULE}                 low side where feature <= limit
    {"rows": [{"B", "E", "top_k", "N", "K", "by_M": [{"M", ...}]}], "otherwise": RULE or null}
"""

import json
from collections.abc import Mapping
from typing import Any

from ...shapes.errors import UsageError, quote
from ...shapes.files.json_file import parse_object
from .policy import Leaf, LeafStatus, MeasuredRule, Node, Policy, Rule, ShapeTable, Split
from .provenance import Provenance
from .timings import FEATURES, SETTING, SHAPE, Setting, Shape

FORMAT = "rooflens dispatch"
VERSION = 1


def emit_json(policy: Policy, provenance: Provenance) -> str:
    """Write a policy with where it comes from."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "policy": policy.name,
        "arch": policy.arch,
        "incumbent": policy.incumbent,
        "provenance": provenance.as_json(),
        "rules": [
            dict(zip(SETTING, setting, strict=True)) | {"largest_M": measured.largest_M, "rule": _plain(measured.rule)}
            for setting, measured in policy.rules.items()
        ],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def parse_policy(content: bytes, where: str) -> Policy:
    """Read what `emit_json` wrote. Raises UsageError that names the place."""
    found = parse_object(content, where, "give a file of rooflens dispatch --emit json")
    if found.get("format") != FORMAT:
        raise UsageError(f"{where}: not a policy; give a file of rooflens dispatch --emit json")
    if found.get("version") != VERSION:
        raise UsageError(f"{where}: version {quote(found.get('version'))}, and {VERSION} is known: emit it again")
    try:
        rules: dict[Setting, MeasuredRule] = {}
        for one in found["rules"]:
            op, pass_, dtype, scheme = (str(one[name]) for name in SETTING)
            rules[op, pass_, dtype, scheme] = MeasuredRule(int(one["largest_M"]), _rule(one["rule"]))
        return Policy(str(found["policy"]), str(found["arch"]), str(found["incumbent"]), rules)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"{where}: a rule is broken ({type(error).__name__}: {error}): emit it again") from None


def _plain(rule: Rule) -> dict[str, Any]:
    if isinstance(rule, Leaf):
        named: dict[str, Any] = {"arm": rule.arm, "status": str(rule.status), "best": rule.best}
        return named | {"gain": _rounded(rule.gain), "low": _rounded(rule.low), "cases": rule.cases}
    if isinstance(rule, Split):
        sides = {"low_side": _plain(rule.low), "high_side": _plain(rule.high)}
        return {"feature": rule.feature, "limit": rule.limit} | sides
    rows = [
        dict(zip(SHAPE, shape, strict=True)) | {"by_M": [{"M": size} | _plain(leaf) for size, leaf in by_m]}
        for shape, by_m in rule.rows.items()
    ]
    return {"rows": rows, "otherwise": _plain(rule.otherwise) if rule.otherwise else None}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 6)


def _rule(plain: Mapping[str, Any]) -> Rule:
    if "rows" not in plain:
        return _node(plain)
    rows: dict[Shape, tuple[tuple[int, Leaf], ...]] = {}
    for row in plain["rows"]:
        b, e, top_k, n, k = (int(row[name]) for name in SHAPE)
        rows[b, e, top_k, n, k] = tuple(sorted(((int(one["M"]), _leaf(one)) for one in row["by_M"]), key=_size))
    return ShapeTable(rows, _node(plain["otherwise"]) if plain["otherwise"] else None)


def _node(plain: Mapping[str, Any]) -> Node:
    if "feature" not in plain:
        return _leaf(plain)
    if plain["feature"] not in FEATURES:
        raise ValueError(f"feature {quote(plain['feature'])}")
    return Split(str(plain["feature"]), int(plain["limit"]), _node(plain["low_side"]), _node(plain["high_side"]))


def _leaf(plain: Mapping[str, Any]) -> Leaf:
    numbers = {name: None if plain[name] is None else float(plain[name]) for name in ("gain", "low")}
    return Leaf(
        str(plain["arm"]), LeafStatus(plain["status"]), str(plain["best"]), **numbers, cases=int(plain["cases"])
    )


def _size(row: tuple[int, Leaf]) -> int:
    return row[0]
