"""The analysed run as the chapters look at it: its slices, shapes, providers and M, in the reader's order."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import pandas as pd

from ..analysis.frames.coordinates import SETTING, size_label
from ..analysis.frames.load import RunData
from ..analysis.frames.speedup import speedups
from ..analysis.run.headline import Headline, headline
from ..analysis.run.pipeline import Analysis
from ..analysis.run.remedy import are_ties, remedy
from ..analysis.run.serving import Serving
from ..shapes.problem import Op, Pass
from ..shapes.run_folder.coverage import Coverage
from ..shapes.run_folder.manifest import Manifest
from ..shapes.verdict import Verdict
from .figures.marks import provider_styles
from .model import Block, Section

REFERENCES = (
    "A reference reads operands that were decoded outside of the timed call: it shows what no decoding would cost, and "
    "neither wins nor is dispatched to."
)

Row: TypeAlias = Mapping[Any, Any]
"""One row of a frame, by column name."""


class ShapeKey(NamedTuple):
    """A weight shape as a row of a grid."""

    model: str
    layer: str
    op: str
    B: int
    E: int
    N: int
    K: int

    @property
    def label(self) -> str:
        """Model and layer."""
        return f"{self.model} {self.layer}"

    @property
    def size(self) -> str:
        """N x K, with batches and experts in front where there are any."""
        return size_label(self._asdict(), "×")


@dataclass(frozen=True, slots=True)
class Slice:
    """Cells that may share a table: one pass, one storage of the operands and one cache state."""

    pass_: str
    dtype: str
    scheme: str
    cache: str
    title: str
    is_later: bool = False
    """Whether it follows another slice of the report: its parts of chapters are folded, its tables are details."""

    @property
    def setting(self) -> tuple[str, str, str, str]:
        """Values of the columns SETTING in its cells."""
        return self.pass_, self.dtype, self.scheme, self.cache

    def mask(self, frame: pd.DataFrame) -> "pd.Series[bool]":
        """Rows of a frame that belong to it."""
        return (frame[[*SETTING]] == [*self.setting]).all(axis=1)

    @property
    def id(self) -> str:
        """Part of an anchor."""
        of = "" if self.pass_ == Pass.FWD else f"{self.pass_}-"
        return anchor(f"{of}{self.dtype}-{self.scheme}-{self.cache}")


@dataclass(frozen=True, eq=False)
class View:
    """The run and everything that the analysis says about it; `options` of the command that writes this report.

    `serving`: tables of other tools that are shown beside the cells.
    """

    analysis: Analysis
    options: tuple[str, ...] = ()
    serving: tuple[Serving, ...] = ()
    _kept: list[tuple[pd.DataFrame, dict[Slice | None, list[Row]]]] = field(default_factory=list, repr=False)
    """Rows by frame and slice. The frames themselves are held: one that were freed could be taken for a later one."""

    @property
    def run(self) -> RunData:
        """The run, with the baseline and challengers that are compared."""
        return self.analysis.run

    @property
    def manifest(self) -> Manifest:
        """run.json of the run."""
        return self.run.manifest

    @property
    def run_path(self) -> str:
        """Where the run was stored when it was measured, for commands that a reader may repeat."""
        return self.run.path

    @property
    def baseline(self) -> str:
        """Provider that ratios refer to."""
        return self.run.baseline

    @cached_property
    def challengers(self) -> tuple[str, ...]:
        """Challengers of the run that have a time, the one that wins most first; all of them where none has."""
        passed = set(self.cells.loc[self.cells["verdict"] == Verdict.PASSED, "provider"])
        ranked = self.analysis.challengers
        return tuple(name for name in ranked if name in passed) or ranked

    @property
    def coverage(self) -> Coverage:
        """What became of the cells of the run."""
        return self.analysis.coverage

    @property
    def rounds(self) -> int:
        """Most rounds that any cell has."""
        return int(self.cells["rounds"].max())

    @property
    def device_name(self) -> str:
        """Name of the device."""
        return self.run.device.name or "an unnamed device"

    @cached_property
    def providers(self) -> tuple[str, ...]:
        """Providers with cells: in the order of run.json, then any others."""
        present = list(dict.fromkeys(self.cells["provider"]))
        known = [name for name in self.manifest.providers if name in present]
        return (*known, *(name for name in present if name not in known))

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Providers that are compared with the baseline: challengers first."""
        rest = [name for name in self.providers if name != self.baseline]
        return tuple(sorted(rest, key=lambda name: _position(name, self.challengers)))

    def named(self, provider: str) -> str:
        """Name a provider in a table of times; a reference says that it is one."""
        return f"{provider} (reference)" if self.run.is_reference(provider) else provider

    def titled(self, text: str, part: Slice) -> str:
        """Title a table of one slice, which it names where there are several."""
        if len(self.slices) == 1:
            return text
        return f"{text[:-1]}; {part.title})" if text.endswith(")") else f"{text} ({part.title})"

    def legend_of(self, providers: Iterable[str]) -> str:
        """Say what a reference is, "" where none of `providers` is one."""
        return f" {REFERENCES}" if any(map(self.run.is_reference, providers)) else ""

    @cached_property
    def styles(self) -> dict[str, int]:
        """Palette style of each provider, the same in every figure."""
        timed = set(self.cells.loc[self.cells["time_s"].notna(), "provider"])
        return provider_styles(self.baseline, self.others, timed)

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """Every (pass, dtype, scheme, cache) that was measured; its title leaves out what all have in common."""
        return slices_of(self.cells)

    @cached_property
    def shapes(self) -> tuple[ShapeKey, ...]:
        """Shapes with cells, in the order of the suite."""
        frame = self.cells
        columns = [frame[name].tolist() for name in ShapeKey._fields]
        present = dict.fromkeys(ShapeKey(*values) for values in zip(*columns, strict=True))
        order = [(shape.model, shape.layer) for shape in self.manifest.shapes]
        return tuple(sorted(present, key=lambda shape: _position((shape.model, shape.layer), order)))

    @property
    def Ms(self) -> list[int]:
        """Every M with cells, ascending."""
        return sorted(int(m) for m in self.cells["M"].unique())

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Activation types, in the order of the run."""
        return tuple(dict.fromkeys(part.dtype for part in self.slices))

    @property
    def schemes(self) -> tuple[str, ...]:
        """Schemes, in the order of the run."""
        return tuple(dict.fromkeys(part.scheme for part in self.slices))

    @property
    def caches(self) -> tuple[str, ...]:
        """Cache states, in the order of the run."""
        return tuple(dict.fromkeys(part.cache for part in self.slices))

    @property
    def only_quantizes(self) -> bool:
        """True for a run without FLOPs that count."""
        return all(shape.op == Op.QUANTIZE for shape in self.shapes)

    @cached_property
    def headline(self) -> Headline:
        """How the challengers stand against the baseline."""
        return headline(self.analysis)

    @property
    def uncompared(self) -> str:
        """Why no challenger is compared with the baseline, "" when one is."""
        return self.headline.uncompared

    def undecided(self, provider: str, setting: Sequence[str] = ()) -> pd.DataFrame:
        """Ratios of a provider without a verdict, of one (pass, dtype, scheme, cache) or of all."""
        rows = self.ratios[(self.ratios["provider"] == provider) & (self.ratios["verdict"] == "undecided")]
        return rows[self.slice_of(setting).mask(rows)] if setting else rows

    def way_out(self, *, one_M: bool = False, undecided: pd.DataFrame | None = None) -> str:
        """Say what settles what is open, such as ratios without a verdict; "" where measuring does not."""
        more_rounds = undecided is not None and not are_ties(undecided)
        to_do = self.coverage.rounds_to_do if self.run.manifest.is_current else 0
        return remedy(rounds_to_do=to_do, one_M=one_M, more_rounds=more_rounds, run=self.run_path)

    def slice_of(self, setting: Sequence[str]) -> Slice:
        """The slice of a (pass, dtype, scheme, cache)."""
        return next(part for part in self.slices if part.setting == tuple(setting))

    @property
    def cells(self) -> pd.DataFrame:
        """One row per cell: its summary and its place on the roofline."""
        return self.analysis.cells

    @cached_property
    def measured(self) -> pd.DataFrame:
        """The cells, and those that a refinement added at single shapes, which have no place on the roofline."""
        added = self.analysis.added
        return pd.concat([self.cells, added], ignore_index=True) if len(added) else self.cells

    @property
    def ratios(self) -> pd.DataFrame:
        """One row per cell of every provider but the baseline: its speedup."""
        return self.analysis.speedups

    @cached_property
    def added_ratios(self) -> pd.DataFrame:
        """The same of the cells that a refinement added at single shapes, which no mean or median over shapes has."""
        return speedups(self.analysis.added, self.analysis.rounds, self.baseline)

    def rows(self, frame: pd.DataFrame, part: Slice | None = None, **where: object) -> list[Row]:
        """Rows of one of this view's frames in `part` whose columns equal `where`, in order."""
        found = self._records(frame, part)
        return [row for row in found if all(row[column] == value for column, value in where.items())]

    def _records(self, frame: pd.DataFrame, part: Slice | None) -> list[Row]:
        """Rows of a frame as dictionaries, made once per slice: grids ask for them provider by provider."""
        kept = next((rows for held, rows in self._kept if held is frame), None)
        if kept is None:
            kept = {}
            self._kept.append((frame, kept))
        if part not in kept:
            chosen = frame
            if part is not None:
                chosen = frame[part.mask(frame)]
            names = list(chosen.columns)
            values = zip(*(chosen[name].tolist() for name in names), strict=True)  # to_dict looks at every value
            kept[part] = [dict(zip(names, row, strict=True)) for row in values]
        return kept[part]

    def by_cell(self, frame: pd.DataFrame, part: Slice, provider: str) -> dict[tuple[ShapeKey, int], Row]:
        """Rows of one provider in a slice, by (shape, M)."""
        return {(shape_of(row), int(row["M"])): row for row in self.rows(frame, part, provider=provider)}

    def shapes_in(self, rows: Mapping[tuple[ShapeKey, int], Row]) -> list[ShapeKey]:
        """Shapes that have a row, in the order of the suite."""
        present = {shape for shape, _ in rows}
        return [shape for shape in self.shapes if shape in present]

    def Ms_in(self, rows: Mapping[tuple[ShapeKey, int], Row]) -> list[int]:
        """Every M that has a row, ascending."""
        return sorted({m for _, m in rows})


def slices_of(cells: pd.DataFrame) -> tuple[Slice, ...]:
    """Return every (pass, dtype, scheme, cache) of a frame in its order; titles leave out what all have in common."""
    rows = list(dict.fromkeys(zip(*(cells[name] for name in SETTING), strict=True)))
    several = [len(set(values)) > 1 for values in zip(*rows, strict=True)]
    named = [name for name, varies in zip(SETTING, several, strict=True) if varies or name in ("dtype", "cache")]
    found = []
    for number, row in enumerate(rows):
        setting = dict(zip(SETTING, row, strict=True))
        title = " · ".join(setting[name] for name in named)
        found.append(Slice(setting["pass"], setting["dtype"], setting["scheme"], setting["cache"], title, number > 0))
    return tuple(found)


def shape_of(row: Row) -> ShapeKey:
    """Return the shape of a row."""
    return ShapeKey(*(row[name] for name in ShapeKey._fields))


def anchor(text: str) -> str:
    """Turn any text into the part of an anchor: letters, digits, dots and dashes. Distinct texts may collide."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-").lower() or "x"


def anchors(prefix: str, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (name, anchor) with distinct anchors, whatever the names contain."""
    used: set[str] = set()
    for name in names:
        base = candidate = f"{prefix}-{anchor(name)}"
        number = 2
        while candidate in used:
            candidate, number = f"{base}-{number}", number + 1
        used.add(candidate)
        yield name, candidate


def sliced(
    section_id: str,
    title: str,
    slices: Iterable[Slice],
    build: Callable[[Slice], Iterable[Block | None]],
    lead: Sequence[Block] = (),
) -> Section | None:
    """Build a chapter of `lead` and a part per slice, whose blocks `build` returns; None where there is no block."""
    parts = [
        Section(f"{section_id}-{part.id}", part.title, tuple(filter(None, build(part))), folded=part.is_later)
        for part in slices
    ]
    return chapter(section_id, title, lead, parts) if lead or any(part.blocks for part in parts) else None


def chapter(section_id: str, title: str, blocks: Sequence[Block], parts: Sequence[Section]) -> Section:
    """Join a chapter with its parts, one per slice; a single part gets no heading of its own, empty ones fall away."""
    shown = tuple(part for part in parts if part.blocks or part.sections)
    if len(parts) == 1:
        return Section(section_id, title, (*blocks, *(block for part in shown for block in part.blocks)))
    return Section(section_id, title, tuple(blocks), shown)


def _position(item: object, order: Any) -> int:
    listed = list(order)
    return listed.index(item) if item in listed else len(listed)
