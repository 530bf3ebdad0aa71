"""JSON objects as dataclasses: their fields say what a file may contain, and what its documentation says of it.

A key of the file is a field that `about` describes, of a `Record` or of a dataclass in it. What is absent or null is
unknown, and has the default of the field. A field without a default must be there. Keys that the class does not know
are kept in `unknown`, and written back.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

from ..errors import UsageError, quote

LARGEST = 1 << 63


@dataclass(frozen=True, slots=True)
class Check:
    """What a value must be, in words, and whether it is."""

    noun: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """What the values of an object must be whose keys are looked up by name; all keys must be there if `required`."""

    types: Mapping[str, Any]
    required: bool = False


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


Whole = Annotated[int, Check("a whole number", _is_whole)]
Size = Annotated[int, Check("a positive whole number", lambda value: _is_whole(value) and value > 0)]
Number = Annotated[float, Check("a number", _is_number)]
Scalar = Annotated[Any, Check("a text or a number", lambda value: isinstance(value, str | bool) or _is_number(value))]
_PLAIN = {
    str: Check("a text", lambda value: isinstance(value, str)),
    bool: Check("true or false", lambda value: isinstance(value, bool)),
}


def about(description: str, default: Any = MISSING, make: Any = MISSING, unknown: Any = None) -> Any:
    """Return a dataclass field; `make` makes its default. A value of `unknown` is not written."""
    metadata = {"description": description, "unknown": unknown}
    return field(default=default, default_factory=make, metadata=metadata)


def others() -> Any:
    """Return the field `unknown` of a dataclass: keys of a file that it does not know."""
    return field(default_factory=dict, compare=False, repr=False, kw_only=True)


class _WrongTypeError(Exception):
    """A value of another type than it must have, at a path of keys."""


@dataclass(slots=True, kw_only=True)
class Record:
    """An object of a JSON file."""

    always: ClassVar[tuple[str, ...]] = ()
    """Fields that are written even when they are empty."""

    unknown: dict[str, Any] = others()

    @classmethod
    def read(cls, content: Mapping[str, Any], where: object, required: Sequence[str] = ()) -> Self:
        """Return what the object of a file says.

        Raises UsageError, which names the file (`where`) and the key, for a `required` key that is absent, and for the
        first value of another type.
        """
        for key in required:
            if content.get(key) is None:
                raise UsageError(
                    f"{where}: key {key!r} is missing; read the run with the rooflens version that wrote it"
                )
        try:
            return cls._made(content, lenient=False)
        except _WrongTypeError as fault:
            path, value, noun = fault.args
            raise UsageError(f"{where}: {path} = {quote(value)} must be {noun}; restore the file from a copy") from None

    @classmethod
    def glance(cls, content: Mapping[str, Any]) -> Self:
        """Return what can be made out; a value of another type is unknown. Its user reports what is wrong."""
        return cls._made(content, lenient=True)

    @classmethod
    def _made(cls, content: Mapping[str, Any], lenient: bool) -> Self:
        found: Self = _decoded(cls, content, "", lenient)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the object of the file."""
        return to_json(self)

    def to_text(self) -> str:
        """Return the content of the file."""
        return json.dumps(self.to_json(), indent=1) + "\n"


def to_json(of: Any) -> dict[str, Any]:
    """Return the object of a file for a dataclass; what is unknown or empty is absent."""
    always = getattr(of, "always", ())
    stated = {one.name: (getattr(of, one.name), one) for one in _keys(of.__class__)}
    kept = {name: value for name, (value, one) in stated.items() if name in always or not _is_empty(value, one)}
    unknown: dict[str, Any] = of.unknown
    return {name: _encode(value) for name, value in kept.items()} | unknown


def documented(kind: Any) -> list[tuple[str, str, str]]:
    """List (key, what it is, description) for the keys of a file; those of inner objects follow, each kind once."""
    rows: list[tuple[str, str, str]] = []
    described: dict[Any, str] = {}

    def describe(kind: Any, path: str) -> None:
        described[kind] = path.rstrip(".[]*")
        descriptions = {one.name: one.metadata["description"] for one in _keys(kind)}
        for name, hint in _hints(kind).items():
            inner, suffix = hint, ""
            while get_origin(inner) in (list, dict):
                suffix += "[]" if get_origin(inner) is list else ".*"
                inner = get_args(inner)[-1]
            is_record = is_dataclass(inner)
            same = f"; keys as in `{described[inner]}`" if is_record and inner in described else ""
            rows.append((path + name, _noun(hint), descriptions[name] + same))
            if is_record and not same:
                describe(inner, f"{path}{name}{suffix}.")

    describe(kind, "")
    return rows


def _is_empty(value: Any, of: Field[Any]) -> bool:
    return value in (None, "", of.metadata["unknown"]) or (of.default_factory is not MISSING and value in ([], {}))


@cache
def _keys(kind: Any) -> list[Field[Any]]:
    return [one for one in fields(kind) if "description" in one.metadata]


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Type of every key, without None, which is the same as an absent key."""
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: _bare(hints[one.name]) for one in _keys(kind)}


@cache
def _needed(kind: Any) -> list[str]:
    return [one.name for one in _keys(kind) if one.default is MISSING and one.default_factory is MISSING]


def _bare(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    return hint


def _at(path: str, name: str) -> str:
    return f"{path}.{quote(name)[1:-1]}" if path else quote(name)[1:-1]


def _noun(hint: Any) -> str:
    if check := _check(hint):
        return check.noun
    return "a list" if get_origin(hint) in (list, tuple) else "an object"


def _check(hint: Any) -> Check | None:
    if get_origin(hint) is Annotated:
        return next((one for one in hint.__metadata__ if isinstance(one, Check)), None)
    return _PLAIN.get(hint)


def _decoded(kind: Any, content: Mapping[str, Any], path: str, lenient: bool) -> Any:
    known, needed = _hints(kind), _needed(kind)
    values: dict[str, Any] = {}
    for name, value in content.items():
        if name not in known or value is None:
            continue
        try:
            values[name] = _decode(known[name], value, _at(path, name), lenient)
        except _WrongTypeError:
            if not lenient or name in needed:
                raise
    if missing := [name for name in needed if name not in values]:
        raise _WrongTypeError(_at(path, missing[0]), None, _noun(known[missing[0]]))
    return kind(**values, unknown={name: value for name, value in content.items() if name not in known})


def _decode(hint: Any, value: Any, path: str, lenient: bool) -> Any:
    if hint is Any:
        return value
    if check := _check(hint):
        if not check.holds(value):
            raise _WrongTypeError(path, value, check.noun)
        return value
    if (sequence := get_origin(hint)) in (list, tuple):
        if not isinstance(value, list):
            raise _WrongTypeError(path, value, _noun(hint))
        inner, *_ = get_args(hint)
        return sequence(_decode(inner, item, f"{path}[{number}]", lenient) for number, item in enumerate(value))
    if not isinstance(value, Mapping):
        raise _WrongTypeError(path, value, _noun(hint))
    if get_origin(hint) is dict:
        inner = get_args(hint)[1]
        return {
            name: _decode(inner, {} if item is None else item, _at(path, name), lenient)
            for name, item in value.items()
            if item is not None or is_dataclass(inner)
        }
    if is_dataclass(hint):
        return _decoded(hint, value, path, lenient)
    (keys,) = (one for one in hint.__metadata__ if isinstance(one, Keys))
    for name, inner in keys.types.items():
        if value.get(name) is not None:
            _decode(inner, value[name], _at(path, name), lenient)
    if keys.required and (missing := [name for name in keys.types if value.get(name) is None]):
        raise _WrongTypeError(_at(path, missing[0]), None, _noun(keys.types[missing[0]]))
    return dict(value)


def _encode(value: Any) -> Any:
    if is_dataclass(value):
        return to_json(value)
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return {name: _encode(item) for name, item in value.items()} if isinstance(value, dict) else value
