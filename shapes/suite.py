"""Suites: a named sweep, written as TOML: shapes x axes x schemes x dtypes x providers x cache states."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from . import shapeset
from .errors import UsageError, quote, unknown_name
from .files.toml_file import parse_toml, read_toml
from .problem import Op, Pass
from .protocol import Protocol
from .scheme import DType, Scheme
from .schemes import parse_scheme
from .shapeset import Shape
from .values import axis_values

Member = TypeVar("Member", bound=StrEnum)

AXES = ("M",)
"""Sizes of a problem that a suite can sweep."""


class Cache(StrEnum):
    """State of the caches before each sample."""

    COLD = "cold"
    WARM = "warm"


@dataclass(frozen=True, slots=True)
class Suite:
    """What to sweep. `schemes` are names (`parse_scheme`); `axes` maps a size of the problem to its values.

    Without an axis M every shape runs the sizes that its set lists for it.

    `baseline` is the provider that speedups are relative to, and the incumbent of the crossover; `challengers` are the
    providers whose crossover is the headline, the first one that ran.
    """

    name: str
    description: str
    shapes: tuple[Shape, ...]
    schemes: tuple[str, ...]
    dtypes: tuple[DType, ...]
    caches: tuple[Cache, ...]
    providers: tuple[str, ...]
    baseline: str
    challengers: tuple[str, ...]
    axes: dict[str, tuple[int, ...]]
    op: Op = Op.GEMM
    passes: tuple[Pass, ...] = (Pass.FWD,)
    protocol: Protocol = field(default_factory=Protocol)

    def sizes(self, shape: Shape) -> tuple[int, ...]:
        """Values of M for a shape: those of the axis, or the shape's own where the suite has no such axis."""
        sizes = self.axes.get("M") or shape.Ms
        if not sizes:
            raise UsageError(
                f"suite {self.name}: shape {shape.label} has no M_list, and the suite no axis M: give --axis M=..."
            )
        return sizes

    def parsed_schemes(self) -> tuple[Scheme, ...]:
        """Schemes with each dtype."""
        return tuple(parse_scheme(name, dtype) for name in self.schemes for dtype in self.dtypes)

    def override(
        self,
        *,
        axes: dict[str, tuple[int, ...]] | None = None,
        dtypes: tuple[DType, ...] = (),
        caches: tuple[Cache, ...] = (),
        providers: tuple[str, ...] = (),
        protocol: dict[str, Any] | None = None,
    ) -> "Suite":
        """Return a suite with the given parts replaced; empty parts stay as they are. Unknown axes raise UsageError."""
        for axis in axes or {}:
            if axis not in AXES:
                raise unknown_name(f"axis of suite {self.name}", axis, list(AXES))
        return replace(
            self,
            axes=self.axes | (axes or {}),
            dtypes=dtypes or self.dtypes,
            caches=caches or self.caches,
            providers=providers or self.providers,
            protocol=replace(self.protocol, **(protocol or {})),
        )


def names() -> list[str]:
    """Names of the suites that come with rooflens."""
    folder = files(__package__) / "suites"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load(name_or_path: str) -> Suite:
    """Load a shipped suite by name, or a TOML file by path. Raises UsageError that names the file and the key."""
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        return _checked(read_toml(path, "suite"), str(path), path.parent)
    if name_or_path not in names():
        raise unknown_name("suite", name_or_path, [*names(), "or a path to a .toml file"])
    text = (files(__package__) / "suites" / f"{name_or_path}.toml").read_text(encoding="utf-8")
    return parse(text, f"suite {name_or_path}", None)


_REQUIRED = ("name", "shapes", "schemes", "dtypes", "caches", "providers", "baseline")
_OPTIONAL = ("description", "pick", "challengers", "axes", "op", "passes", "protocol")


def parse(text: str, where: str, folder: Path | None = None) -> Suite:
    """Parse the TOML text of a suite; `where` names it in errors, `folder` is where its own shape sets are."""
    return _checked(parse_toml(text, where), where, folder)


def _checked(table: dict[str, Any], where: str, folder: Path | None) -> Suite:
    try:
        return _suite(table, where, folder)
    except UsageError as error:
        raise error if where in str(error) else UsageError(f"{where}: {error}") from None


def _suite(table: dict[str, Any], where: str, folder: Path | None) -> Suite:
    if "devices" in table:
        raise UsageError(f"{where}: devices is no longer a key of a suite: omit it, and give --on to rooflens run")
    _known_keys(table, (*_REQUIRED, *_OPTIONAL), where)
    if missing := [key for key in _REQUIRED if key not in table]:
        raise UsageError(f"{where}: key {quote(missing[0])} is missing")
    protocol = table.get("protocol", {})
    _known_keys(protocol, tuple(entry.name for entry in fields(Protocol)), f"{where} [protocol]")
    dtypes = tuple(DType.parse(name) for name in _strings(table, "dtypes", where))
    for scheme, dtype in itertools.product(_strings(table, "schemes", where), dtypes):
        parse_scheme(scheme, dtype)
    suite = Suite(
        name=_string(table, "name", where),
        description=_string(table, "description", where),
        shapes=_pick(shapeset.load(_string(table, "shapes", where), folder), _strings(table, "pick", where), where),
        schemes=_strings(table, "schemes", where),
        dtypes=dtypes,
        caches=tuple(cache_state(name) for name in _strings(table, "caches", where)),
        providers=_strings(table, "providers", where),
        baseline=_string(table, "baseline", where),
        challengers=_strings(table, "challengers", where),
        axes=_axes(table.get("axes", {}), where),
        op=_member(Op, table.get("op", Op.GEMM), f"{where}: op"),
        passes=tuple(_member(Pass, name, f"{where}: pass") for name in _strings(table, "passes", where)) or (Pass.FWD,),
        protocol=Protocol(**protocol),
    )
    for key in ("schemes", "dtypes", "caches", "providers"):
        if not getattr(suite, key):
            raise UsageError(f"{where}: {key} is empty")
    if not re.fullmatch(r"\w[\w.-]*", suite.name):  # it becomes part of a folder's name
        raise UsageError(f"{where}: name = {quote(suite.name)} must be letters, digits, '-', '_' and '.'")
    return suite


def cache_state(text: str) -> Cache:
    """Read "cold" or "warm"; raise UsageError for anything else."""
    try:
        return Cache(text)
    except ValueError:
        raise UsageError(f"unknown cache state {quote(text)}: known: {', '.join(Cache)}") from None


def _known_keys(table: object, known: tuple[str, ...], where: str) -> None:
    if not isinstance(table, dict):
        raise UsageError(f"{where}: a table is expected")
    for key in table:
        if key not in known:
            raise unknown_name(f"key in {where}:", key, list(known))


def _string(table: dict[str, Any], key: str, where: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise UsageError(f"{where}: {key} = {quote(value)} must be a string")
    return value


def _strings(table: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    values = table.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise UsageError(f"{where}: {key} = {quote(values)} must be a list of strings")
    if twice := [value for value in values if values.count(value) > 1]:
        raise UsageError(f"{where}: {key} names {quote(twice[0])} twice")
    return tuple(values)


def _member(kind: type[Member], value: object, where: str) -> Member:
    """Read a member of an enumeration by its value."""
    try:
        return kind(str(value))
    except ValueError:
        raise unknown_name(f"{where}:", str(value), list(kind)) from None


def _axes(table: object, where: str) -> dict[str, tuple[int, ...]]:
    _known_keys(table, AXES, f"{where} [axes]")
    assert isinstance(table, dict)
    return {name: axis_values(name, values, f"{where} [axes]") for name, values in table.items()}


def _pick(shapes: tuple[Shape, ...], labels: tuple[str, ...], where: str) -> tuple[Shape, ...]:
    """Keep the shapes with the given labels, in the order of `labels`; all of them without labels."""
    by_label = {shape.label: shape for shape in shapes}
    for label in labels:
        if label not in by_label:
            raise unknown_name(f"shape in {where} pick:", label, list(by_label))
    return tuple(by_label[label] for label in labels) if labels else shapes


def compared_with(named: str, baseline: str, challengers: Sequence[str]) -> tuple[str, ...]:
    """Return what is compared with the baseline that was `named`: the challengers beside it, else the old baseline."""
    if not named:
        return tuple(challengers)
    beside = tuple(name for name in challengers if name != named)
    return beside or ((baseline,) if named != baseline else ())
