"""What run.json may say: the types of the keys that somebody reads. Others are passed on as they are.

Who looks a key up may rely on its type, on the keys that are required, and on every item of a list and of a mapping.
A key that is not required may be absent or null: unknown.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ..errors import UsageError, quote
from ..protocol import LIMITS

LARGEST = 1 << 63


@dataclass(frozen=True, slots=True)
class Value:
    """A value that stands for itself: what it must be, in words, and whether it is."""

    noun: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Object:
    """An object with these keys, of which some are required; `others` is what further values must be."""

    keys: Mapping[str, "Kind"] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    others: "Kind | None" = None
    noun: str = "an object"


@dataclass(frozen=True, slots=True)
class Items:
    """A list whose items are all of one kind."""

    of: "Kind"
    noun: str = "a list"


Kind = Value | Object | Items


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


TEXT = Value("a text", lambda value: isinstance(value, str))
NAME = Value("the name of a provider", lambda value: isinstance(value, str))
WHOLE = Value("a whole number", _is_whole)
SIZE = Value("a positive whole number", lambda value: _is_whole(value) and value > 0)
NUMBER = Value("a number", _is_number)
FLAG = Value("true or false", lambda value: isinstance(value, bool))
SCALAR = Value("a text or a number", lambda value: value is None or isinstance(value, str | bool) or _is_number(value))

DEVICE = Object(
    dict.fromkeys(("kind", "name", "vendor", "arch", "uuid", "host"), TEXT)
    | dict.fromkeys(("index", "llc_bytes", "l2_bytes", "memory_bytes"), WHOLE)
    | {"compute_units": SIZE, "processes": Items(WHOLE)}
)

_PLACE: dict[str, Kind] = dict.fromkeys(("model", "layer", "op", "pass", "dtype", "scheme", "cache"), TEXT)
_SIZES: dict[str, Kind] = dict.fromkeys(("B", "E", "top_k", "M", "N", "K"), SIZE)

REFINE = Object(
    {
        "challenger": NAME,
        "incumbent": NAME,
        "complete": FLAG,
        "most": WHOLE,
        "ratio": NUMBER,
        "added": Items(Object(_PLACE | _SIZES | {"providers": Items(NAME)}), "a list of objects"),
    }
)

SHARD = Object({"folder": TEXT, "first_process": WHOLE, "refine": REFINE})

REQUEST = Object(
    dict.fromkeys(("suite", "filter_expression", "device", "dtype", "caches", "llc", "timer", "cold_by"), TEXT)
    | dict.fromkeys(("tuning", "tuned", "scan", "refine", "refine_to"), TEXT)
    | dict.fromkeys(("timeout", "build_timeout", "budget", "target_ci"), TEXT)
    | dict.fromkeys(("threads", "seed", "rounds", "refine_most", "searches"), WHOLE)
    | {"axes": Items(TEXT), "files": Items(TEXT), "providers": Items(NAME), "calibrate": FLAG}
)
"""What a call of `rooflens run`, or of `rooflens tune`, asked for."""

RUN = Object(
    {
        **dict.fromkeys(("id", "suite", "created_at", "ordered_at", "description", "folder"), TEXT),
        **dict.fromkeys(("timer", "cold_by", "tuning", "telemetry", "device_spec"), TEXT),
        "baseline": NAME,
        "challengers": Items(NAME, "a list of provider names"),
        "rounds": WHOLE,
        "planned_units": WHOLE,
        "seed": WHOLE,
        "threads": WHOLE,
        "processes": WHOLE,
        "device": DEVICE,
        "devices": Items(DEVICE, "a list of objects"),
        "environment": Object(others=SCALAR),
        "protocol": Object(
            dict.fromkeys(("timer", "cold_by", "tuning"), TEXT)
            | dict.fromkeys(("target_ci", "budget_s", *LIMITS), NUMBER)
            | dict.fromkeys(("rounds", "min_samples", "seed", "threads", "llc_bytes"), WHOLE)
            | {"caches": Items(TEXT)}
        ),
        "providers": Object(others=Object(dict.fromkeys(("role", "source", "file"), TEXT))),
        "shapes": Items(
            Object(_SIZES | {"model": TEXT, "layer": TEXT, "alias": TEXT, "Ms": Items(SIZE)}, ("model", "layer")),
            "a list of objects",
        ),
        "command": Items(TEXT),
        "request": REQUEST,
        "tune": REQUEST,
        "canary_drift": Object(others=NUMBER),
        "refine": REFINE,
        "scan": Object({"axis": TEXT}),
        "fleet": Object({"address": TEXT, "slots": WHOLE, "jobs": WHOLE, "done": WHOLE}),
        "shards": Items(SHARD, "a list of objects"),
    }
)


_ROUND = Value(
    "a round and the name of a version",
    lambda value: isinstance(value, list) and len(value) == 2 and _is_whole(value[0]) and isinstance(value[1], str),
)

COMPARISON = Object(
    {
        **dict.fromkeys(("repository", "suite", "setup", "suite_hash", "only", "ended"), TEXT),
        "files": Items(TEXT),
        "options": Items(TEXT),
        "commits": Object(others=TEXT),
        "tables": Object(others=TEXT),
        "searches": Object(others=WHOLE),
        "identity": Object(),
        "rounds": SIZE,
        "chunks": WHOLE,
        "done": Items(_ROUND),
    }
)
"""compare.json of a rooflens compare --git."""


def made_at(manifest: Mapping[str, Any]) -> float:
    """Seconds since 1970 by which runs are ordered; -inf for what is no time.

    That is `created_at`, or `ordered_at` where the clock was behind a run that was there already.
    """
    try:
        found = datetime.fromisoformat(str(manifest.get("ordered_at") or manifest.get("created_at")))
        return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return -math.inf


def check_manifest(
    manifest: Mapping[str, Any], where: object, required: tuple[str, ...] = (), kind: Object = RUN
) -> None:
    """Raise UsageError for the first key of a run.json that has another type, or that is `required` and absent."""
    for key in required:
        if manifest.get(key) is None:
            raise UsageError(f"{where}: key {key!r} is missing; read the run with the rooflens version that wrote it")
    for path, value, expected in _faults(manifest, kind, ""):
        raise UsageError(f"{where}: {path} = {quote(value)} must be {expected.noun}; restore the file from a copy")


def _faults(value: Any, kind: Kind, path: str) -> Iterator[tuple[str, Any, Kind]]:
    match kind:
        case Value():
            if not kind.holds(value):
                yield path, value, kind
        case Items():
            if not isinstance(value, list):
                yield path, value, kind
                return
            for number, item in enumerate(value):
                yield from _faults(item, kind.of, f"{path}[{number}]")
        case Object():
            if not isinstance(value, Mapping):
                yield path, value, kind
                return
            for key in kind.required:
                if value.get(key) is None:
                    yield f"{path}.{key}" if path else key, None, kind.keys[key]
            for key, item in value.items():
                inner = kind.keys.get(key, kind.others)
                if inner is not None and item is not None:
                    yield from _faults(item, inner, f"{path}.{quote(key)[1:-1]}" if path else key)
