"""JSON objects as dataclasses: their fields say what a file or a message may contain.

A key of a file is a field that `about` describes, of a `Record` or of a dataclass in it; what is unknown or empty is
not written. Keys that the class does not know are kept in `unknown`, and written back. A dataclass without such fields
is written whole.

What is absent or null has the default of the field. A field without a default must be there, unless it may be None.
"""

import json
import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import repeat
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

from ..errors import UsageError, quote

LARGEST = 1 << 63


@dataclass(frozen=True, slots=True)
class Check:
    """What a value must be, in words, and whether it is; `make` turns it into the value of a dataclass."""

    noun: str
    holds: Callable[[Any], bool]
    make: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """What the values of an object must be whose keys are looked up by name; all keys must be there if `required`."""

    types: Mapping[str, Any]
    required: bool = False


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST


def is_number(value: Any) -> bool:
    """Tell whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


Whole = Annotated[int, Check("a whole number", _is_whole)]
Size = Annotated[int, Check("a positive whole number", lambda value: _is_whole(value) and value > 0)]
Number = Annotated[float, Check("a number", is_number)]
Scalar = Annotated[Any, Check("a text or a number", lambda value: isinstance(value, str | bool) or is_number(value))]
_PLAIN = {
    str: Check("a text", lambda value: isinstance(value, str)),
    bool: Check("true or false", lambda value: isinstance(value, bool)),
    int: Check("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: Check("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
}
_DOUBLES = tuple[float, ...]
"""Written as the base64 of its doubles: it arrives bit for bit, and soon."""


def about(description: str, default: Any = MISSING, make: Any = MISSING, unknown: Any = None) -> Any:
    """Return a dataclass field; `make` makes its default. A value of `unknown` is not written."""
    metadata = {"description": description, "unknown": unknown}
    return field(default=default, default_factory=make, metadata=metadata)


def others() -> Any:
    """Return the field `unknown` of a dataclass: keys of a file that it does not know."""
    return field(default_factory=dict, compare=False, repr=False, kw_only=True)


class WrongTypeError(Exception):
    """A value of another type than it must have, at a path of keys."""

    def __str__(self) -> str:
        path, value, noun = self.args
        return f"{path} = {quote(value)} must be {noun}"


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
        except WrongTypeError as fault:
            raise UsageError(f"{where}: {fault}; restore the file from a copy") from None

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
    """Return the object of a file for a dataclass."""
    return {name: _encode(value) for name, value in shallow(of).items()}


def shallow(of: Any) -> dict[str, Any]:
    """Return the object for a dataclass, with the values of its fields as they are, but arrays of numbers."""
    always, hints = getattr(of, "always", ()), _hints(of.__class__)
    stated = {one.name: (getattr(of, one.name), one) for one in _keys(of.__class__)}
    kept = {name: value for name, (value, one) in stated.items() if name in always or not _is_empty(value, one)}
    unknown: dict[str, Any] = getattr(of, "unknown", {})
    return {name: _packed(value) if hints[name] == _DOUBLES else value for name, value in kept.items()} | unknown


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
    if "description" not in of.metadata:
        return value is None
    return value in (None, "", of.metadata["unknown"]) or (of.default_factory is not MISSING and value in ([], {}))


@cache
def _keys(kind: Any) -> list[Field[Any]]:
    every = fields(kind)
    return [one for one in every if "description" in one.metadata] or list(every)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Type of every key, without None, which is the same as an absent key."""
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: _bare(hints[one.name]) for one in _keys(kind)}


@cache
def _absent(kind: Any) -> dict[str, Any]:
    """What the fields without a default have where they are absent: None, or MISSING for those that must be there."""
    hints = get_type_hints(kind)
    needed = [one.name for one in _keys(kind) if one.default is MISSING and one.default_factory is MISSING]
    nullable = {name for name, hint in hints.items() if hint is Any or NoneType in get_args(hint)}
    return {name: None if name in nullable else MISSING for name in needed}


def _bare(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    return hint


def _packed(values: Sequence[float]) -> str:
    return b64encode(struct.pack(f"<{len(values)}d", *values)).decode()


def _unpacked(text: str) -> tuple[float, ...]:
    content = b64decode(text, validate=True)
    return struct.unpack(f"<{len(content) // 8}d", content)


def _at(path: str, name: str) -> str:
    return f"{path}.{quote(name)[1:-1]}" if path else quote(name)[1:-1]


def _noun(hint: Any) -> str:
    if check := _check(hint):
        return check.noun
    return "a list" if get_origin(hint) in (list, tuple) else "an object"


@cache
def _check(hint: Any) -> Check | None:
    if get_origin(hint) is Annotated:
        return next((one for one in hint.__metadata__ if isinstance(one, Check)), None)
    if isinstance(hint, type) and issubclass(hint, Enum):
        values = [one.value for one in hint]
        return Check(f"one of {', '.join(values)}", lambda value: value in values, hint)
    return _PLAIN.get(hint)


def _decoded(kind: Any, content: Mapping[str, Any], path: str, lenient: bool) -> Any:
    known, absent = _hints(kind), _absent(kind)
    values: dict[str, Any] = {}
    for name, value in content.items():
        if name not in known or value is None:
            continue
        try:
            values[name] = from_json(known[name], value, _at(path, name), lenient)
        except WrongTypeError:
            if not lenient or absent.get(name) is MISSING:
                raise
    values = absent | values
    if missing := [name for name, value in values.items() if value is MISSING]:
        raise WrongTypeError(_at(path, missing[0]), None, _noun(known[missing[0]]))
    if hasattr(kind, "unknown"):
        values["unknown"] = {name: value for name, value in content.items() if name not in known}
    return kind(**values)


def from_json(hint: Any, value: Any, path: str = "", lenient: bool = False) -> Any:
    """Return the value of a type that `to_json` wrote, at a `path` of keys.

    Raises WrongTypeError, and what a dataclass refuses.
    """
    if hint is Any:
        return value
    if check := _check(hint):
        if not check.holds(value):
            raise WrongTypeError(path, value, check.noun)
        return check.make(value) if check.make else value
    if get_origin(hint) in (Union, UnionType):
        return None if value is None else from_json(_bare(hint), value, path, lenient)
    if hint == _DOUBLES and isinstance(value, str):
        return _unpacked(value)
    if (sequence := get_origin(hint)) in (list, tuple):
        if not isinstance(value, list):
            raise WrongTypeError(path, value, _noun(hint))
        inners: Iterable[Any] = get_args(hint)
        first, *others = inners
        if sequence is list or others == [...]:
            if (plain := _check(first)) and not plain.make and all(map(plain.holds, value)):
                return sequence(value)
            inners = repeat(first, len(value))
        elif len(value) != len(others) + 1:
            raise WrongTypeError(path, value, f"a list of {len(others) + 1}")
        pairs = enumerate(zip(inners, value, strict=True))
        return sequence(from_json(inner, item, f"{path}[{number}]", lenient) for number, (inner, item) in pairs)
    if not isinstance(value, Mapping):
        raise WrongTypeError(path, value, _noun(hint))
    if get_origin(hint) in (dict, Mapping):
        key, inner = get_args(hint)
        return {
            key(name): from_json(inner, {} if item is None and is_dataclass(inner) else item, _at(path, name), lenient)
            for name, item in value.items()
            if item is not None or inner is Any or is_dataclass(inner)
        }
    if is_dataclass(hint):
        return _decoded(hint, value, path, lenient)
    (keys,) = (one for one in hint.__metadata__ if isinstance(one, Keys))
    for name, inner in keys.types.items():
        if value.get(name) is not None:
            from_json(inner, value[name], _at(path, name), lenient)
    if keys.required and (missing := [name for name in keys.types if value.get(name) is None]):
        raise WrongTypeError(_at(path, missing[0]), None, _noun(keys.types[missing[0]]))
    return dict(value)


def _encode(value: Any) -> Any:
    if is_dataclass(value):
        return to_json(value)
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return {name: _encode(item) for name, item in value.items()} if isinstance(value, dict) else value
