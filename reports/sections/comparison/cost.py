"""What finding configurations cost in each version, and what the versions ran: compiled code and settings."""

import math
from collections.abc import Iterator

from ....analysis.comparison.breakdown import controls
from ....analysis.comparison.evidence import SearchCost, binaries, costs, settings
from ....analysis.comparison.machine_code import Difference, summarize_changes
from ....analysis.comparison.result import Result
from ... import formatting as fmt
from ...model import (
    Block,
    Bullets,
    Column,
    Section,
    Table,
    TableCell,
    Text,
    integer,
    number_columns,
    text_columns,
    texts,
)

MOST_ROWS = 60


def cost(result: Result) -> Section | None:
    """Candidates and wall time of the searches, base → head; None where neither version searched."""
    found = costs(result.searches)
    if not found:
        return None
    columns = (
        *(*text_columns("provider", "pass"), Column("searches")),
        *number_columns("candidates of a search", "wall time of all searches"),
    )
    rows = tuple((*texts(provider, pass_), *_cost(sides)) for (provider, pass_), sides in found.items())
    totals = [_seconds([sides.get(side) for sides in found.values()]) for side in ("base", "head")]
    said = f"All searches together: {_times(*totals)}." if all(totals) else ""
    table = Table(
        "compared-tuning",
        "Searching configurations",
        columns,
        rows,
        how_to_read="base → head; × is head ÷ base. candidates: of the search that has most. A stored table "
        "(rooflens tune) pays for them once.",
        stub=2,
    )
    return Section("compared-cost", "Cost of tuning", (table, *((Text(said),) if said else ())))


def _cost(sides: dict[str, SearchCost]) -> tuple[TableCell, ...]:
    pair = [sides.get(side) for side in ("base", "head")]
    searches = " → ".join("none" if one is None else str(one.searches) for one in pair)
    candidates = " → ".join("none" if one is None else str(one.candidates) for one in pair)
    base, head = pair
    if base is None or head is None:
        times = " → ".join("none" if one is None else fmt.time(one.seconds) or "unknown" for one in pair)
        return TableCell(searches), TableCell(candidates), TableCell(times)
    return (
        TableCell(searches),
        TableCell(f"{candidates}{_factor(base.candidates, head.candidates)}", head.candidates / base.candidates),
        TableCell(_times(base.seconds, head.seconds), _ratio(base.seconds, head.seconds)),
    )


def _seconds(found: list[SearchCost | None]) -> float:
    """Wall time of all; NaN where one does not say, 0 without any."""
    return sum(one.seconds for one in found if one is not None)


def _times(base: float, head: float) -> str:
    shown = " → ".join(fmt.time(one) or "unknown" for one in (base, head))
    return f"{shown}{_factor(base, head)}"


def _factor(base: float, head: float) -> str:
    ratio = _ratio(base, head)
    return f" ({fmt.ratio(ratio)})" if ratio is not None and base != head else ""


def _ratio(base: float, head: float) -> float | None:
    return head / base if base > 0 and not math.isnan(head) else None


def evidence(result: Result) -> Section | None:
    """Whether the compiled code differs, what cases with the same code show, settings, and changes of machine code."""
    blocks: list[Block] = []
    if compiled := _binaries(result):
        blocks.append(compiled)
    if noise := controls(result.effects):
        scatter = f", scattered by {fmt.share(noise.spread)} of time" if noise.cases > 1 else ""
        largest = fmt.change_size(noise.largest)
        blocks.append(
            Text(
                f"Controls: {fmt.plural(noise.cases, 'case has', 'cases have')} the same compiled code and "
                f"configuration in both versions{scatter}; the largest change among them is {largest} of "
                f"time, and {noise.called} of them differ beyond chance. What is seen there is not the code's."
            )
        )
    if chosen := _settings(result):
        blocks.append(chosen)
    if result.isa is not None:
        blocks += _isa(result.isa)
    return Section("compared-evidence", "What ran", tuple(blocks)) if blocks else None


def _binaries(result: Result) -> Table | None:
    found = binaries(result.effects)
    if not found:
        return None
    columns = (
        *text_columns("provider", "pass"),
        *number_columns(
            "same code", "other code", "unknown", "same configuration", "distinct in base", "distinct in head"
        ),
    )
    rows = tuple(
        (
            *texts(one.provider, one.pass_),
            *(
                TableCell(fmt.count(part, one.cases), part)
                for part in (one.same, one.other, one.unknown, one.configured)
            ),
            *(integer(one.base), integer(one.head)),
        )
        for one in found
    )
    return Table(
        "compared-binaries",
        "Compiled code",
        columns,
        rows,
        how_to_read="Of the cases that both versions pass, by the hash of the compiled code that ran. unknown: no "
        "hash in a version, or another one from round to round.",
        stub=2,
    )


def _settings(result: Result) -> Table | None:
    found = settings(result.effects)
    if not found:
        return None
    columns = (
        *text_columns("setting", "provider", "pass"),
        *number_columns("base", "head"),
    )
    rows = tuple(
        (
            *texts(one.name, one.provider, one.pass_),
            *(
                TableCell(f"{fmt.count(part, one.cases)} ({fmt.share(part / one.cases)})", part)
                for part in (one.base, one.head)
            ),
        )
        for one in found[:MOST_ROWS]
    )
    more = f" The other {len(found) - MOST_ROWS} are not listed." if len(found) > MOST_ROWS else ""
    return Table(
        "compared-settings",
        "Settings that were chosen in other numbers of cases",
        columns,
        rows,
        reading=f"Cases whose configuration has the setting, of those that both versions pass.{more}",
        stub=1,
        detail=len(rows) > 12,
    )


def _isa(found: Difference) -> Iterator[Block]:
    base, head = found.compilers
    compilers = f"compiled by Triton {base}" if base == head else f"compiled by Triton {base} and {head}"
    yield Bullets(
        (
            f"Machine code: {fmt.count(found.identical, found.common)} binaries of both versions are identical, "
            f"{found.recoded} differ in code and in no count, {len(found.added)} are new and {len(found.removed)} gone"
            f"; {compilers}.",
        )
    )
    changes = summarize_changes(found)
    if changes.empty:
        return
    names = ("arch", "provider", "kernel", "part", "pass", "dtype")
    varying = [name for name in names if changes[name].nunique() > 1 or name == "kernel"]
    columns = (
        *text_columns(*varying, "what"),
        *number_columns("binaries", "base", "head"),
    )
    rows = tuple(
        (
            *(TableCell(str(row[name])) for name in (*varying, "column")),
            *(integer(int(row["changed"])), *texts(row["base"], row["head"])),
        )
        for row in changes.head(MOST_ROWS).to_dict("records")
    )
    more = f" The other {len(changes) - MOST_ROWS} rows are not listed." if len(changes) > MOST_ROWS else ""
    yield Table(
        "compared-isa",
        "What changed in the machine code",
        columns,
        rows,
        reading=f"Columns of isa.csv that differ, over the binaries that differ in them; low to high.{more}",
        stub=len(varying),
        detail=True,
    )
