"""A comparison as a whole: headline, geometric means with both intervals, distribution, models."""

import math
from collections.abc import Iterator

from ...analysis.comparison.breakdown import COUNTED, Count, by_model, distribution
from ...analysis.comparison.decide import FALSE_DISCOVERY, Word
from ...analysis.comparison.effects import Effects, Status
from ...analysis.comparison.result import SUM, Result
from ...analysis.comparison.suite import SuiteChange, by_pass, suite_change
from .. import formatting as fmt
from ..model import Align, Bullets, Cell, Column, KeyNumber, KeyNumbers, Scale, Section, Table, Text, Tone

HOW = (
    "A change is head over base, of the time: +3% is slower. Each case is judged by its rounds: slower or faster when "
    "the change exceeds the margin (1%; 3% under 10 µs) beyond chance, with at most "
    f"{FALSE_DISCOVERY:.0%} false ones expected among all that are called; same when the 90% interval lies inside the "
    "margin; inconclusive otherwise, with the smallest change that would have been found in 4 of 5 such comparisons."
)

_UNKNOWN = Cell("unknown", tone=Tone.MISSING)


def headline(result: Result) -> Section:
    """Say what happened to the suite, how many cases moved, and what limits that."""
    numbers = [number for effects in _measured(result) for number in _key_numbers(effects)]
    if result.unverified is None:
        numbers += [
            KeyNumber("Slower, verified", str(result.count(Word.SLOWER)), _others(result), result.count(Word.SLOWER)),
            KeyNumber("Faster, verified", str(result.count(Word.FASTER)), _called(result), result.count(Word.FASTER)),
        ]
    else:
        ranked = len(result.unverified.ranked)
        numbers.append(
            KeyNumber("Beyond the bounds of the tables", str(ranked), f"none verified; {_called(result)}", ranked)
        )
    for name, found in by_pass(result.selection).items() if result.selection is not None else ():
        numbers.append(
            KeyNumber(
                f"Head's own configurations, {name}",
                fmt.change(found.ratio),
                f"over head with those of base, {interval(found.rounds)}: what choosing again is worth",
                found.ratio,
            )
        )
    if broken := result.count_of(Status.BROKEN):
        numbers.append(KeyNumber("Broken", str(broken), "passed in base, does not in head", broken))
    how = (Text(HOW),) if result.unverified is None else ()
    blocks = (KeyNumbers(tuple(numbers)), *((Bullets(result.notes),) if result.notes else ()), *how)
    return Section("compared", "What changed", blocks)


def suite(result: Result) -> Section | None:
    """One row per provider and pass, and the sum of fwd and bwd; then how the changes are distributed."""
    rows = [row for effects in (result.effects, result.sums) if effects is not None for row in _suite_rows(effects)]
    if not rows:
        return None
    columns = (
        Column("provider", align=Align.LEFT),
        Column("pass", align=Align.LEFT),
        Column("cases"),
        Column("time, head over base", scale=Scale.DIVERGING),
        Column("if measured again"),
        Column("over the cases"),
        Column("TFLOPS"),
        Column("distinct GEMMs"),
    )
    means = Table(
        "compared-means",
        "Geometric means",
        columns,
        tuple(rows),
        reading="if measured again: 95% interval over the rounds, of the suite as it is. over the cases: how much they "
        "disagree, which more rounds do not narrow. TFLOPS is the change of the rate, the inverse of that of the time.",
        stub=2,
    )
    return Section("compared-suite", "The suite", (means, _distributions(result)))


def models(result: Result) -> Section | None:
    """One row per model, where there are several."""
    found = by_model(result.effects)
    if len({name for name, *_ in found}) < 2:
        return None
    rows = [
        (
            *(Cell(name), Cell(pass_), *_change_cells(change)),
            *(Cell(str(words[word]), words[word]) for word in result.words),
        )
        for name, pass_, change, words in found
    ]
    columns = (
        *(Column("model", align=Align.LEFT), Column("pass", align=Align.LEFT), Column("cases")),
        Column("time, head over base", scale=Scale.DIVERGING),
        Column("if measured again"),
        *(Column(word.value) for word in result.words),
    )
    return Section("compared-models", "By model", (Table("compared-by-model", "Models", columns, tuple(rows), stub=2),))


def interval(bounds: tuple[float, float] | None) -> str:
    """Write an interval of ratios as changes; "" without one."""
    return fmt.change_interval(*bounds) if bounds else ""


def change_cell(ratio: float) -> Cell:
    """A change of time: shorter is the good direction."""
    return Cell(fmt.change(ratio), ratio, level=-math.log2(ratio) * 4)


def _change_cells(found: SuiteChange) -> tuple[Cell, Cell, Cell]:
    again = Cell(interval(found.rounds)) if found.rounds else _UNKNOWN
    return Cell(str(found.cases), found.cases), change_cell(found.ratio), again


def _suite_rows(effects: Effects) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for provider, pass_ in effects.cases[["provider", "pass"]].drop_duplicates().itertuples(index=False, name=None):
        mine = (effects.cases["provider"] == provider) & (effects.cases["pass"] == pass_)
        found, unique = suite_change(effects, rows=mine), suite_change(effects, unique=True, rows=mine)
        if found is None or unique is None:
            continue
        over = Cell(interval(found.spread)) if found.spread else _UNKNOWN
        rows.append(
            (
                Cell(str(provider)), Cell(str(pass_)), *_change_cells(found), over, Cell(fmt.change(1 / found.ratio)),
                Cell(f"{fmt.change(unique.ratio)} ({unique.cases})", unique.ratio),
            )
        )  # fmt: skip
    return rows


def _distributions(result: Result) -> Table:
    """One column per pass."""
    found = {
        str(name): spread
        for effects in _measured(result)
        for name in effects.cases["pass"].unique()
        if (spread := distribution(effects, str(name))) is not None
    }
    names = ("median", "mean", "p25", "p75", "least", "most")
    rows = [
        (Cell(name), *(Cell(fmt.change(1 + getattr(one, name)), getattr(one, name)) for one in found.values()))
        for name in names
    ]
    for number, (side, step) in enumerate(COUNTED):
        header = f"{'≥' if side > 0 else '≤'} {fmt.signed_percent(side * step)}%"
        rows.append((Cell(header), *(_counted(one.counts[number]) for one in found.values())))
    return Table(
        "compared-distribution",
        "Distribution of the changes of time",
        (Column("over the cases", align=Align.LEFT), *(Column(name) for name in found)),
        tuple(rows),
        reading="by chance: as many would be seen beyond that line if nothing had changed.",
    )


def _counted(count: Count) -> Cell:
    chance = "" if count.expected is None else f", {count.expected:.1f} by chance"
    return Cell(f"{count.seen}, {count.verified} verified{chance}", count.seen)


def _measured(result: Result) -> tuple[Effects, ...]:
    return (result.effects,) if result.sums is None else (result.effects, result.sums)


def _key_numbers(effects: Effects) -> Iterator[KeyNumber]:
    """One geometric mean per pass."""
    unique = by_pass(effects, unique=True)
    for name, found in by_pass(effects).items():
        again = f"95% interval over rounds {interval(found.rounds)}" if found.rounds else "no interval"
        left = f", {found.left_out} without all rounds left out" if found.left_out else ""
        distinct = unique[name]
        once = f"; {fmt.change(distinct.ratio)} over {distinct.cases} distinct GEMMs" * (distinct.cases != found.cases)
        detail = f"{fmt.plural(found.cases, 'case')}{left}, {again}; TFLOPS {fmt.change(1 / found.ratio)}{once}"
        yield KeyNumber(f"Time, geometric mean of {name}", fmt.change(found.ratio), detail, found.ratio)


def _others(result: Result) -> str:
    sums = f"; sums of {SUM}: {result.count_sums(Word.SLOWER)} slower, {result.count_sums(Word.FASTER)} faster"
    told = f"{result.count(Word.SAME)} same, {result.count(Word.INCONCLUSIVE)} inconclusive"
    return told + sums * (result.sums is not None)


def _called(result: Result) -> str:
    return f"of {fmt.plural(result.count_of(Status.COMPARED), 'case')} that both versions pass"
