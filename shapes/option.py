"""How a value is declared once: its flags and help, the commands that have it, how it is read and written."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from . import values
from .errors import UsageError, quote
from .files.record import Whole

MOST = 1_000_000
"""What rounds, samples and seconds may be at most; more is a slip of the keyboard."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How the values of an option are read (as typed, or as Python has them) and written (as run.json has them).

    An option that is `repeated` has a list of values; `empty` makes the value of one that is not given. `stored` is the
    type in run.json. What a command line accepts: one of `choices`, or a path; `metavar` is its name in help.
    """

    read: Callable[[Any, str], Any]
    write: Callable[[Any], Any] = str
    repeated: bool = False
    empty: Callable[[], Any] = lambda: None
    stored: Any = str
    choices: tuple[str, ...] = ()
    is_path: bool = False
    metavar: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """How a field of `Request`, or a setting (a field of `Protocol`), is given. An argument has no flags.

    name      name of the field
    commands  those that have it
    stored    run.json keeps it, so that --resume repeats it
    anew      --resume takes another value without naming the suite again
    setting   --set gives it
    """

    flags: tuple[str, ...]
    metavar: str
    kind: Kind
    help: str
    commands: tuple[str, ...]
    name: str
    stored: bool = True
    anew: bool = False
    setting: bool = False

    @property
    def flag(self) -> str:
        """Name of the option in a message."""
        if self.flags:
            return self.flags[-1].partition("/")[0]
        return f"--set {self.name}" if self.setting else self.name.upper()

    def words(self, value: Any) -> list[str]:
        """Write a value as the words of a command line."""
        written = self.kind.write(value)
        if isinstance(written, bool):
            forms = self.flags[-1].split("/")
            return forms[:1] if written else forms[1:]
        if self.setting and not self.flags:
            return ["--set", f"{self.name}={written}"]
        each = written if self.kind.repeated else [written]
        return [word for one in each for word in (*self.flags[-1:], str(one))]


def declared(usage: str, kind: Kind, help: str, commands: tuple[str, ...], **more: Any) -> Callable[..., Option]:
    """Return what makes an option, once it has a name: `usage` is its flags and metavar."""
    words = usage.split()
    flags = tuple(word for word in words if word.startswith("-"))
    metavar = "".join(words[len(flags) :]) or kind.metavar or "|".join(kind.choices)
    return partial(Option, flags, metavar, kind, help, commands, **more)


def _text(value: Any, flag: str) -> str:
    if not isinstance(value, str | Path) or "\0" in str(value):
        raise UsageError(f"{flag} {quote(value)}: give a text")
    return str(value)


def _names(value: Any, flag: str) -> tuple[str, ...]:
    return tuple(values.names(value)) if isinstance(value, str) else _many(_text, value, flag)


def _span(value: Any, flag: str) -> tuple[str, ...]:
    return tuple(value.split("..", 1)) if isinstance(value, str) else _many(_text, value, flag)


def _many(read: Callable[[Any, str], Any], value: Any, flag: str) -> tuple[Any, ...]:
    return tuple(read(one, flag) for one in values.listed(value, flag))


def _axes(axes: dict[str, tuple[int, ...]]) -> list[str]:
    return [f"{name}={values.sizes_text(sizes)}" for name, sizes in axes.items()]


def _flag(value: Any, flag: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{flag} {quote(value)}: give True or False")
    return value


def several(one: Kind) -> Kind:
    """Return the kind of a list of values."""
    each = replace(one, repeated=True, empty=tuple, stored=list[str])
    return replace(each, read=partial(_many, one.read), write=lambda found: [one.write(value) for value in found])


def whole(least: int, most: int) -> Kind:
    """Return the kind of whole numbers within bounds."""

    def read(value: Any, flag: str) -> int:
        number = int(value) if isinstance(value, str) and value.isdecimal() else values.whole(value)
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise UsageError(f"{flag} {quote(value)}: give a whole number from {least} to {most}")
        return number

    return Kind(read, int, stored=Whole, metavar="N")


def choice(known: Iterable[str]) -> Kind:
    """Return the kind of one of these names."""
    names = [str(name) for name in known]

    def read(value: Any, flag: str) -> str:
        if value not in names:
            raise UsageError(f"{flag} {quote(value)}: known: {', '.join(names)}")
        return str(value)

    return Kind(read, choices=tuple(names))


TEXT, PATH = Kind(_text), Kind(lambda *given: Path(_text(*given)), lambda path: str(path.resolve()), is_path=True)
NAMES = Kind(_names, ",".join, empty=tuple)
SPAN = Kind(_span, "..".join, empty=tuple)
AXES = Kind(values.axes, _axes, repeated=True, empty=dict, stored=list[str])
SECONDS = Kind(values.seconds, lambda value: f"{values.plain(value)}s", metavar="TIME")
FRACTION = Kind(values.fraction, values.plain, metavar="PERCENT")
BYTES = Kind(values.size_bytes, values.size_text, metavar="SIZE")
COUNT = whole(1, MOST)
FLAG = Kind(_flag, bool, stored=bool)
SUITE = replace(TEXT, write=lambda name: str(Path(name).resolve()) if name.endswith(".toml") else name)
