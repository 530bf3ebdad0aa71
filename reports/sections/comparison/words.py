"""What the chapters of a comparison share: how a case is named and placed, how its change and verdict are written.

One sign for the whole report: a change is one of time, head ÷ base − 1, and above 0 head is slower.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from ....analysis.comparison.decide import Word
from ....analysis.comparison.effects import Order
from ....analysis.comparison.numbering import SHAPE_SIZES, Numbering, number_cases
from ....analysis.comparison.parts import GROUP, Part, all_cases, parts
from ....analysis.comparison.result import SUM, Result
from ....analysis.comparison.suite import SuiteChange
from ....analysis.frames.coordinates import size_label
from ... import formatting as fmt
from ...model import Cells, Column, Scale, TableCell, Tone
from ...view import Row

COMBINED = (
    f"{SUM}: the FLOPs of both passes over the sum of their times, added round by round; of a GEMM 6 M N K / "
    "(forward + backward)."
)


UNKNOWN = TableCell("unknown", tone=Tone.MISSING)

SIDES = ("base", "head")

FEW = 20
"""Rows of the table under the headline; where it holds all cases, no list of some of them follows."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """How the rows of a comparison are named: by number, case, M and size, and by what else tells them apart."""

    numbering: Numbering
    varying: tuple[str, ...]
    has_sizes: bool = True

    @classmethod
    def of(cls, result: Result) -> "Places":
        """Number all cases of a comparison, those without a ratio among them."""
        cases = result.effects.cases
        varying = tuple(name for name in GROUP if cases[name].nunique() > 1)
        return cls(number_cases(cases), varying, bool((cases[["B", "E", "M", "N", "K"]] != 1).any(axis=None)))

    def cells(self, row: Row) -> Cells:
        """Say which case a row is."""
        case = f"{row['model']} {row['layer']}".strip()
        sizes: Cells = {Column("M"): row["M"], Column("N×K"): size_label(row, "×")} if self.has_sizes else {}
        named: Cells = {name: row[name] for name in self.varying}
        return {"case": case, Column(self.numbering.title): self.numbering[row], **named, **sizes}

    def name(self, row: Row, known: Sequence[str] = ()) -> str:
        """A case in a sentence: llama2-7b down, M=16, 4096×11008 (case no. 3). `known`: names of GROUP told before."""
        more = "".join(f", {row[name]}" for name in self.varying if name not in known)
        size = f", M={row['M']}, {size_label(row, '×')}" if self.has_sizes else ""
        name = f"{row['model']} {row['layer']}".strip()
        return f"{name}{size}{more} ({self.numbering.title} {self.numbering[row]})"

    def numbers(self, rows: Sequence[Row], most: int = 20) -> str:
        """Numbers of cases in a sentence, in the order of `rows`, each once."""
        found = list(dict.fromkeys(str(self.numbering[row]) for row in rows))
        return fmt.some(found, most)


def has_few(result: Result) -> bool:
    """True where the table under the headline holds all cases."""
    return len(all_cases(result)) <= FEW


def group_cells(result: Result, part: Part) -> Cells:
    """Tell parts apart by what they are of; empty where all are of one provider and setting."""
    said = dict(zip(GROUP, part.group, strict=True))
    return {name: said[name] for name in varying(result)}


def varying(result: Result) -> tuple[str, ...]:
    """Names of GROUP in which the compared parts differ."""
    groups = [part.group for part in parts(result)]
    return tuple(name for place, name in enumerate(GROUP) if len({group[place] for group in groups}) > 1)


def part_cells(result: Result, part: Part) -> Cells:
    """Tell parts apart, by their pass too; that of the sum says in a footnote what it is."""
    note = COMBINED if part.pass_ == SUM else ""
    return {**group_cells(result, part), "pass": TableCell(part.pass_, note=note)}


def rates_of(unit: str, cells: Iterable[object]) -> Cells:
    """Cells of base and head, in `unit`."""
    return {Column(side, unit): cell for side, cell in zip(SIDES, cells, strict=True)}


def told(result: Result, part: Part) -> str:
    """A part in a sentence: "bwd", "simt_4bit, cold, bwd"."""
    return ", ".join([*map(str, group_cells(result, part).values()), part.pass_])


def change_cell(effect: float, low: float | None = None, high: float | None = None, note: str = "") -> TableCell:
    """A change of time; `value` is the share, the colour that of log2 of base over head, four times as strong.

    low, high  interval of the effect, which the digits follow. That of a table is what rounding allows, not 95 %.
    """
    if math.isnan(effect):
        return UNKNOWN
    return TableCell(fmt.effect(effect, low, high), math.expm1(effect), -effect / math.log(2) * 4, note)


def case_change(row: Row) -> TableCell:
    """The change of one case; one of which nothing is decided looks like it."""
    cell = change_cell(row["effect"], *_measured_interval(row))
    return replace(cell, tone=Tone.UNDECIDED) if row["word"] == Word.INCONCLUSIVE and cell is not UNKNOWN else cell


def share_text(share: float, cases: pd.DataFrame) -> str:
    """Write a statistic of the changes of `cases`, such as a quantile, with the digits of the case nearest to it.

    One that is a case reads like the case.
    """
    effect = math.log1p(share)
    near: Row = cases.iloc[int((cases["effect"] - effect).abs().to_numpy().argmin())].to_dict()
    low, high = (
        (None if bound is None else effect + bound - float(near["effect"])) for bound in _measured_interval(near)
    )
    return fmt.effect(effect, low, high)


def _measured_interval(row: Row) -> tuple[float | None, float | None]:
    """Interval of a case by its rounds, from which digits follow; none of what rounding of a table allows."""
    return (None, None) if row["word"] == Word.UNVERIFIED else (float(row["low"]), float(row["high"]))


def mean_change(change: SuiteChange) -> TableCell:
    """Change of a geometric mean; its digits follow the interval over the rounds, and ~ says that nothing is proven."""
    cell = change_cell(math.log(change.ratio), *change.log_rounds)
    return replace(cell, text=f"~{cell.text}", tone=Tone.UNDECIDED) if change.unproven else cell


UNPROVEN = "~: the interval of the mean includes no change, or no verdict is given: nothing is proven."


def how_averaged(result: Result) -> str:
    """Say what a time is; nothing of tables, which have one value per case."""
    several = "Times: geometric mean over the rounds of the median of each, so that a change follows from them."
    return "" if result.order is Order.IMPORTED else several


SIGN = "Change of time: head ÷ base − 1, above 0 head is slower."


def change_column(header: str = "change of time") -> Column:
    """Column of `change_cell`."""
    return Column(header, scale=Scale.DIVERGING)


def interval_column(result: Result, measured: str = "interval") -> Column:
    """Column of `interval_cell`: 95% by the rounds, or of tables what their rounding allows."""
    return Column("what rounding allows" if result.order is Order.IMPORTED else measured)


def interval_cell(low: float, high: float) -> TableCell:
    """An interval of effects, as changes of time."""
    text = "" if low == high else fmt.effect_interval(low, high)  # times of a table that were not rounded
    return TableCell(text) if text else TableCell("none", tone=Tone.MISSING)


def verdict_cell(row: Row) -> TableCell:
    """What was decided, and what would have been found where nothing was."""
    word = Word(row["word"])
    smallest = float(row["smallest"])
    would = f", would find {fmt.about(smallest)}" if word is Word.INCONCLUSIVE and not math.isnan(smallest) else ""
    sides = "; ".join(f"{side}: {text}" for side in SIDES if (text := str(row[f"{side}_disturbed"])))
    disturbed = f"disturbed while it was measured: {sides}" if sides else ""
    open_ = word in (Word.INCONCLUSIVE, Word.UNVERIFIED)
    tone = Tone.UNDECIDED if open_ else Tone.BEST if word is Word.FASTER else Tone.PLAIN
    return TableCell(f"{word}{would}", note="; ".join(filter(None, (str(row["withheld"]), disturbed))), tone=tone)


def rate_unit(rows: pd.DataFrame) -> str:
    """Unit of the rates of cases; "" where FLOPs do not count for any of them."""
    counted = rows[rows["flops"] > 0]
    if counted.empty:
        return ""
    rates = [*(counted["flops"] / counted["base_gmean_s"]), *(counted["flops"] / counted["head_gmean_s"])]
    return fmt.flops_unit(rates)


def rate_cells(row: Row, unit: str) -> Cells:
    """Rates of base and head in `unit`; without one, their times."""
    if not unit:
        return time_cells(row)
    rates = [float(row["flops"]) / float(row[f"{side}_gmean_s"]) if row["flops"] > 0 else math.nan for side in SIDES]
    return rates_of(unit, [TableCell(fmt.flops_in(unit, rate), rate) if rate > 0 else "" for rate in rates])


def time_cells(row: Row) -> Cells:
    """Times of base and head."""
    seconds = [float(row[f"{side}_gmean_s"]) for side in SIDES]
    return rates_of("", [TableCell(fmt.time(one), one) for one in seconds])


def change_cells(result: Result, row: Row) -> Cells:
    """Times, change, interval and verdict of one case."""
    bounds = interval_cell(row["low"], row["high"])
    changed: Cells = {change_column(): case_change(row), interval_column(result): bounds, "verdict": verdict_cell(row)}
    return time_cells(row) | changed


def problems(cases: pd.DataFrame) -> int:
    """Count the problems among cases."""
    return len(cases[[*SHAPE_SIZES]].drop_duplicates())
