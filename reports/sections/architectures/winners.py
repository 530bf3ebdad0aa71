"""What wins on one architecture and loses on another: against the baseline, and among all that could be chosen."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from ....analysis.run.architectures import agreement, reversals, side
from ... import formatting as fmt
from ...cells import is_impossible, ratio_cell
from ...model import Column, Scale, Section, Table, TableCell, Text, Tone, integer, number_columns, text_columns, texts
from ...view import Row, ShapeKey, Slice, View, chapter, shape_of
from ..speedups.winners import leading, slower_pairs
from .subject import Architectures, gain

MOST_REVERSALS = 20
"""Reversals that are listed; the grids per shape have them all."""

MOST_CHOICES = 200
"""Cells with another fastest provider that are listed."""

OPEN_ROWS = 24
"""Rows up to which a list stands open."""

Leaders = Mapping[str, tuple[str, ...]]
"""Architecture -> the fastest provider there, and after it those that are not told apart from it."""

WORDS = ("faster", "slower", "reversed", "undecided")
"""Words of `architectures.agreement`, in the order of their columns."""


def disagreements(subject: Architectures) -> Section | None:
    """Count and list where architectures disagree; None with a single one, or nothing to compare."""
    if len(subject.names) < 2:
        return None
    table = _agreement(subject)
    lead = (table, *_reversals(subject)) if table else ()
    slower = {name: slower_pairs(view) for name, view in subject.views.items()}
    parts = [
        Section(f"fastest-{part.id}", part.title, tuple(_fastest(subject, slower, part)), folded=part.is_later)
        for part in subject.slices
    ]
    if not lead and not any(part.blocks for part in parts):
        return None
    return chapter("disagreements", "Where architectures disagree", lead, parts)


def _agreement(subject: Architectures) -> Table | None:
    words = agreement(subject.cells, subject.names)
    lines = []
    for part in subject.slices:
        for provider in subject.others:
            mine = part.mask(subject.cells) & (subject.cells["provider"] == provider)
            counts = Counter(words[mine & (words != "")])
            if counts:
                total = sum(counts.values())
                shown = (integer(counts[word]) for word in WORDS)
                lines.append((*texts(provider, part.title), integer(total), *shown))
    if not lines:
        return None
    columns = (*text_columns("provider", "operands"), *number_columns("cells", *WORDS))
    reading = (
        f"Cells with a ratio to {subject.baseline} on two architectures or more. Faster, slower: verified on each of "
        "them, the 95% interval excludes 1. Reversed: verified faster on one, slower on another. Undecided: the rest."
    )
    title = f"Against {subject.baseline}: do architectures agree?"
    return Table("agreement", title, columns, tuple(lines), how_to_read=reading, stub=2)


def _reversals(subject: Architectures) -> list[Table | Text]:
    found = reversals(subject.cells, subject.names)
    if found.empty:
        return [
            Text(f"No provider is verified faster than {subject.baseline} on one architecture and slower on another.")
        ]
    listed = found.head(MOST_REVERSALS)
    sides = [side(listed, name).to_dict("records") for name in subject.names]
    titles = {part.setting: part.title for part in subject.slices}
    lines = []
    for rows in zip(*sides, strict=True):
        row = rows[0]
        shape = shape_of(row)
        lines.append(
            (
                *texts(row["provider"], shape.label, shape.size),
                integer(int(row["M"])),
                TableCell(titles[row["pass"], row["dtype"], row["scheme"], row["cache"]]),
                *(ratio_cell(gain(one)) for one in rows),
                TableCell(fmt.ratio(float(row["contrast"])), float(row["contrast"])),
            )
        )
    columns = (
        *(*text_columns("provider", "shape"), *number_columns("N×K", "M"), *text_columns("operands")),
        *(Column(name, scale=Scale.DIVERGING) for name in subject.names),
        Column("contrast"),
    )
    more = (
        f" {len(lines)} of {len(found)}, those furthest apart; the grids have all." if len(found) > len(lines) else ""
    )
    reading = (
        f"Time of {subject.baseline} divided by the time of the provider on each architecture, > 1: the provider is "
        "faster there. Contrast: the lower end of the interval where it wins over the upper end where it "
        f"loses.{more}"
    )
    title = "Verified faster on one architecture, verified slower on another"
    return [Table("reversals", title, columns, tuple(lines), reading=reading, stub=2)]


def _fastest(subject: Architectures, slower: Mapping[str, frozenset[tuple[str, str]]], part: Slice) -> Iterator[Table]:
    """Say where the fastest provider is another one, of those that could be dispatched to."""
    timed = {name: _timed(subject, view, part) for name, view in subject.views.items()}
    at = dict.fromkeys(chain.from_iterable(timed.values()))
    choices: dict[tuple[ShapeKey, int], Leaders] = {
        place: {
            name: leading(found[place], slower[name]) for name, found in timed.items() if len(found.get(place, {})) > 1
        }
        for place in at
    }
    compared = {place: leaders for place, leaders in choices.items() if len(leaders) > 1}
    if compared:
        yield _counts(part, compared)
    if others := {place: leaders for place, leaders in compared.items() if _word(leaders) == "another"}:
        yield _choices(subject, part, others, timed)


def _timed(subject: Architectures, view: View, part: Slice) -> dict[tuple[ShapeKey, int], dict[str, Row]]:
    """Rows of one architecture with a possible time by (shape, M) and provider, without references."""
    found: dict[tuple[ShapeKey, int], dict[str, Row]] = {}
    for provider in subject.providers:
        if not subject.is_reference(provider):
            for place, row in view.by_cell(view.cells, part, provider).items():
                if fmt.known(row["time_s"]) and not is_impossible(row):
                    found.setdefault(place, {})[provider] = row
    return found


def _word(leaders: Leaders) -> str:
    """Say "same", "another" or "open" of the fastest providers of one problem."""
    common = set.intersection(*(set(names) for names in leaders.values()))
    if not common:
        return "another"
    return "same" if all(len(names) == 1 for names in leaders.values()) else "open"


def _counts(part: Slice, compared: Mapping[tuple[ShapeKey, int], Leaders]) -> Table:
    sizes = sorted({m for _, m in compared})
    counts = Counter((_word(leaders), m) for (_, m), leaders in compared.items())
    rows = {"same": "the same", "another": "another one", "open": "not distinguished"}
    lines = [
        (TableCell(text), *(integer(counts[word, m]) for m in sizes), integer(sum(counts[word, m] for m in sizes)))
        for word, text in rows.items()
    ]
    totals = [sum(counts[word, m] for word in rows) for m in sizes]
    lines.append((TableCell("shapes"), *map(integer, totals), integer(sum(totals))))
    reading = (
        "Number of shapes at which the fastest provider is verified to be the same on all architectures; another one "
        "(no provider is the fastest, or not distinguished from it, on each); or not distinguished. Counted are shapes "
        "with times of two providers or more on two architectures or more; references, which do not decode, excluded."
    )
    columns = (*text_columns("fastest provider"), *(Column(f"M={m}") for m in sizes), Column("all"))
    return Table(
        f"same-{part.id}", "Is the same provider the fastest?", columns, tuple(lines), how_to_read=reading, footer=1
    )


def _choices(
    subject: Architectures,
    part: Slice,
    others: Mapping[tuple[ShapeKey, int], Leaders],
    timed: Mapping[str, Mapping[tuple[ShapeKey, int], Mapping[str, Row]]],
) -> Table:
    order = {shape: number for number, shape in enumerate(subject.shapes)}
    ranked = sorted(others, key=lambda place: (order[place[0]], place[1]))
    lines = tuple(
        (
            *texts(shape.label, shape.size),
            integer(m),
            *(_choice(name, others[shape, m], timed[name].get((shape, m), {})) for name in subject.names),
        )
        for shape, m in ranked[:MOST_CHOICES]
    )
    more = f" {len(lines)} of {len(others)} are listed." if len(others) > len(lines) else ""
    reading = (
        "The fastest provider of each architecture, with those that are not distinguished from it; then how many times "
        f"as long those take here, by the medians of their times, that are the fastest elsewhere.{more}"
    )
    return Table(
        f"choices-{part.id}",
        "Another provider is the fastest",
        (*text_columns("shape"), *number_columns("N×K", "M"), *text_columns(*subject.names)),
        lines,
        reading=reading,
        stub=2,
        detail=len(lines) > OPEN_ROWS,
    )


def _choice(name: str, leaders: Leaders, found: Mapping[str, Row]) -> TableCell:
    """Name the fastest on one architecture, and what the choices of the others cost there."""
    if name not in leaders:
        return TableCell("", tone=Tone.MISSING)
    first = leaders[name][0]
    elsewhere = dict.fromkeys(names[0] for other, names in leaders.items() if other != name)
    costs = [
        f"{rival} {fmt.ratio(float(found[rival]['time_s']) / float(found[first]['time_s']))}"
        if rival in found
        else f"{rival} has no time"
        for rival in elsewhere
        if rival not in leaders[name]
    ]
    beside = f" ({', '.join(costs)})" if costs else ""
    return TableCell(f"{' or '.join(leaders[name])}{beside}", first)
