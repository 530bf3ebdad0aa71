"""Takeaways of a three-way comparison: every figure in a sentence is computed from the rows of the tables."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....shapes.problem import Op
from ... import formatting as fmt
from ...cells import mean_cell, mean_over, ratio_cell
from ...model import Remarks, Section
from ...view import Row, View, shape_of
from ..speedups.three_way import Trio, trios_of

WORTH_TELLING = 1.1
"""Ratio of two group means from which on a difference between groups is told."""


def takeaways(view: View) -> Section | None:
    """Say what the tables of `three_way` come to; None where there is nothing to compare."""
    trios = trios_of(view)
    found = sorted(((detail, trio, text) for trio in trios for detail, text in _of(trio)), key=lambda item: item[0])
    items = tuple(f"{trio.part.title}: {text}" if len(trios) > 1 else text for _, trio, text in found)
    return Section("takeaways", "Takeaways", (Remarks(items),)) if items else None


def _of(trio: Trio) -> Iterator[tuple[bool, str]]:
    """Yield each sentence, and whether it is a detail of another one."""
    old, new, reference = trio.sides
    for base in (old, reference):
        known = trio.ratios_over(base)
        if not known:
            continue
        problems = trio.with_both(base)
        cells = {problem[new]["cell_id"]: problem[new] for problem in problems}
        impossible = sum(any(trio.is_out(problem[name]) for name in (base, new)) for problem in problems)
        told = [_range(known, base, new, impossible)]
        if len(known) > 1:
            told.append(_movers(known))
        yield False, " ".join(f"{text[:1].upper()}{text[1:]}" if number else text for number, text in enumerate(told))
        if len(known) > 1:
            yield from ((True, text) for text in _who_gains(known, cells, base, new))


def _range(known: Sequence[Row], base: str, new: str, impossible: int) -> str:
    found = Counter(row["verdict"] for row in known)
    (word, count), *rest = [(word, found[word]) for word in ("faster", "slower", "undecided") if found[word]]
    sure = "" if word == "undecided" else "verified "
    whole = f"{new} is {sure}{word} at {count} of {fmt.plural(len(known), 'problem')}"
    verdicts = ", ".join([whole, *(f"{word} at {count}" for word, count in rest)])
    left_out = f"; {impossible} excluded, shorter than the device allows" if impossible else ""
    best, worst = (pick(known, key=lambda row: float(row["ratio"])) for pick in (max, min))
    span = _ratio(best) if len(known) == 1 else f"{_ratio(worst)} to {_ratio(best)}"
    mean = f", geometric mean {mean_cell(mean_over(known)).text} over distinct GEMMs" if len(known) > 1 else ""
    return f"{base} {fmt.DIVIDE} {new} (time): {span}{mean}; {verdicts}{left_out}."


def _movers(known: Sequence[Row]) -> str:
    """Name the largest ratio, the smallest one, and where most time is saved or lost."""
    best, worst = (pick(known, key=lambda row: float(row["ratio"])) for pick in (max, min))
    saved = max(known, key=lambda row: abs(float(row["baseline_time_s"]) - float(row["time_s"])))
    seconds = float(saved["baseline_time_s"]) - float(saved["time_s"])
    most = f"the most time {'saved' if seconds >= 0 else 'lost'} is {_difference(abs(seconds))}, at {_where(saved)}"
    return f"largest at {_where(best)}, smallest at {_where(worst)}; {most}."


def _difference(seconds: float) -> str:
    """Write a difference of times with three digits: 310 µs, 2.43 ms."""
    unit, scale = next(((unit, scale) for unit, scale in (("s", 1.0), ("ms", 1e-3)) if seconds >= scale), ("µs", 1e-6))
    return f"{fmt.significant(seconds / scale)} {unit}"


def _ratio(row: Row) -> str:
    return ratio_cell(row).text


def _where(row: Row) -> str:
    """Name a problem; sizes that its layer says already are not said twice."""
    shape = shape_of(row)
    sizes = [shape.N, shape.K] if row["op"] != Op.QUANTIZE else [shape.K]
    said = all(str(size) in shape.label for size in sizes)
    many = f" (E={shape.E})" if shape.E > 1 and said and f"E{shape.E}" not in shape.label else ""
    return f"{shape.label}{many if said else f' ({shape.size})'}, M={int(row['M'])}"


def _who_gains(known: Sequence[Row], cells: dict[Any, Row], base: str, new: str) -> Iterator[str]:
    """Compare means between groups of problems: by experts, by batch, by rows of each expert."""
    ratio = f"{base} {fmt.DIVIDE} {new}"
    if text := _by(known, lambda row: int(row["E"]), lambda value: f"with {fmt.plural(value, 'expert')}"):
        yield f"{ratio} by experts: {text}."
    if text := _by(known, lambda row: int(row["B"]), lambda value: f"at B={value}"):
        yield f"{ratio} by batch: {text}."

    def rows_each(row: Row) -> float:
        each = cells[row["cell_id"]]["M_per_expert"]
        return float(each) if fmt.known(each) and int(row["E"]) > 1 else float(row["M"])

    values = sorted({rows_each(row) for row in known})
    if len(values) < 2:
        return
    middle = statistics.median_low(values) if len(values) > 2 else values[0]
    unit = " rows per expert" if any(int(row["E"]) > 1 for row in known) else ""
    of = "" if unit else "M="
    if text := _by(
        known,
        lambda row: int(rows_each(row) > middle),
        lambda above: f"{'above' if above else 'up to'} {of}{middle:g}{unit}",
    ):
        yield f"{ratio} by size: {text}."


def _by(known: Sequence[Row], key: Callable[[Row], int], label: Callable[[int], str]) -> str:
    """Write the geometric mean per group, largest first; "" where there is one group or they hardly differ."""
    groups: dict[int, list[Row]] = {}
    for row in known:
        groups.setdefault(key(row), []).append(row)
    means = {value: mean_over(rows) for value, rows in groups.items()}
    ordered = sorted(means, key=lambda value: -float(means[value]["ratio"]))
    if len(means) < 2 or means[ordered[0]]["ratio"] < WORTH_TELLING * means[ordered[-1]]["ratio"]:
        return ""
    return ", ".join(
        f"{mean_cell(means[value]).text} {label(value)} ({fmt.plural(len(groups[value]), 'problem')})"
        for value in ordered
    )
