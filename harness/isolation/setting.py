"""One setting of the process that any code can change, with how it is read and written back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import eq
from typing import Any

Read = Callable[[], Any]
Write = Callable[[Any], object]

_LONGEST = 60
"""Characters of a value that is shown in a message."""


@dataclass(frozen=True, slots=True)
class ProcessSetting:
    """One setting: `write` brings back what `read` has returned, and is None where nothing can bring it back.

    `paces`: it decides how many cores a launch gets, or how soon, so that times taken with another value compare with
    nobody's. `is_consumed`: right code changes it as well (random states), so that nobody is named for it. `same` tells
    whether what was read before and what is read now are alike.
    """

    name: str
    read: Read
    write: Write | None
    paces: bool = False
    is_consumed: bool = False
    same: Callable[[Any, Any], bool] = eq

    def now(self) -> Any:
        """Read it; what cannot be read is a value as well, so that reading never ends a worker."""
        try:
            return self.read()
        except Exception as error:
            return f"unreadable ({error})"

    def write_back(self, saved: Any) -> bool:
        """Write a value that was read before; tell whether it is read again."""
        if self.write is None:
            return False
        try:
            self.write(saved)
        except Exception:
            return False
        return self.is_consumed or self.same(saved, self.now())

    def difference(self, saved: Any, found: Any) -> str:
        """Say what was left, in words that follow "left"."""
        if isinstance(saved, Mapping) and isinstance(found, Mapping):
            keys = dict.fromkeys(key for key in (*saved, *found) if saved.get(key) != found.get(key))
            return f"{self.name} changed ({', '.join(map(str, keys))})"[: 2 * _LONGEST]
        if max(len(repr(found)), len(repr(saved))) > _LONGEST:
            return f"{self.name} changed"
        return f"{self.name} at {found!r} instead of {saved!r}"


def attribute(module: Any, name: str) -> ProcessSetting:
    """Make a setting of an attribute, named as its module is."""
    where = getattr(module, "__name__", None) or f"{type(module).__module__}.matmul"
    return ProcessSetting(f"{where}.{name}", lambda: getattr(module, name), lambda value: setattr(module, name, value))
