"""What finding configurations cost in each version, and what the versions ran: compiled code and settings."""

import math
from collections.abc import Iterator, Mapping, Sized

from ....analysis.comparison.breakdown import controls
from ....analysis.comparison.evidence import SearchCost, binaries, costs, settings
from ....analysis.comparison.machine_code import Difference, summarize_changes
from ....analysis.comparison.result import Result
from ... import formatting as fmt
from ...model import Block, Bullets, Cells, Column, Section, Table, TableCell, Text, table

MOST_ROWS = 60


def cost(result: Result) -> Section | None:
    """Candidates and wall time of the searches, base → head; None where neither version searched."""
    found = costs(result.searches)
    if not found:
        return None
    rows: list[Cells] = [
        {"provider": provider, "pass": pass_, **_cost(sides)} for (provider, pass_), sides in found.items()
    ]
    totals = [sum(sides[side].seconds for sides in found.values() if side in sides) for side in ("base", "head")]
    said = f"All searches together: {_times(*totals)}." if all(totals) else ""
    how = (
        "base → head; × is head ÷ base. candidates: of the search that has most. A stored table (rooflens tune) pays "
        "for them once."
    )
    listed = table("compared-tuning", "Searching configurations", rows, how_to_read=how, stub=2)
    return Section("compared-cost", "Cost of tuning", (listed, *((Text(said),) if said else ())))


def _cost(sides: Mapping[str, SearchCost]) -> Cells:
    pair = base, head = sides.get("base"), sides.get("head")
    searches = " → ".join("none" if one is None else str(one.searches) for one in pair)
    candidates = TableCell(" → ".join("none" if one is None else str(one.candidates) for one in pair))
    times = TableCell(" → ".join("none" if one is None else fmt.time(one.seconds) or "unknown" for one in pair))
    if base and head:
        less, more = base.candidates, head.candidates
        candidates = TableCell(f"{candidates.text}{_factor(less, more)}", more / less)
        times = TableCell(_times(base.seconds, head.seconds), _ratio(base.seconds, head.seconds))
    return {
        Column("searches"): searches,
        Column("candidates of a search"): candidates,
        Column("wall time of all searches"): times,
    }


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
    return Section("compared-evidence", "Compiled code and settings", tuple(blocks)) if blocks else None


def _binaries(result: Result) -> Table | None:
    names = {"same": "same code", "other": "other code", "unknown": "unknown", "configured": "same configuration"}
    rows: list[Cells] = [
        {
            **{name: one[name] for name in ("provider", "pass")},
            **{Column(header): _of(one[name], one["cases"]) for name, header in names.items()},
            **{Column(f"distinct in {side}"): one[side] for side in ("base", "head")},
        }
        for one in binaries(result.effects)
    ]
    how = (
        "Of the cells that both versions pass, by the hash of the compiled code that ran. unknown: no hash in a "
        "version, or another one from round to round."
    )
    return table("compared-binaries", "Compiled code", rows, how_to_read=how, stub=2) if rows else None


def _of(part: int, cases: int, more: str = "") -> TableCell:
    return TableCell(f"{fmt.count(part, cases)}{more}", part)


def _unlisted(found: Sized, what: str = "") -> str:
    left = len(found) - MOST_ROWS
    return f" The other {left}{what} are not listed." if left > 0 else ""


def _settings(result: Result) -> Table | None:
    found = settings(result.effects)
    rows: list[Cells] = [
        {
            **{name: one[name] for name in ("setting", "provider", "pass")},
            **{
                Column(side): _of(one[side], one["cases"], f" ({fmt.share(one[side] / one['cases'])})")
                for side in ("base", "head")
            },
        }
        for one in found[:MOST_ROWS]
    ]
    reading = f"Cases whose configuration has the setting, of those that both versions pass.{_unlisted(found)}"
    title = "Settings that were chosen in other numbers of cases"
    return table("compared-settings", title, rows, reading, detail=len(rows) > 12) if rows else None


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
    rows: list[Cells] = [
        {
            **{name: row[name] for name in varying},
            "what": row["column"],
            Column("binaries"): int(row["changed"]),
            **{Column(side): str(row[side]) for side in ("base", "head")},
        }
        for row in changes.head(MOST_ROWS).to_dict("records")
    ]
    reading = (
        "Columns of isa.csv that differ, over the binaries that differ in them; low to high."
        f"{_unlisted(changes, ' rows')}"
    )
    yield table("compared-isa", "What changed in the machine code", rows, reading, stub=len(varying), detail=True)
