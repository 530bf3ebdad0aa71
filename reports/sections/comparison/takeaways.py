"""What a comparison says in sentences: ranges, who gains, time saved, what became right or wrong. All computed."""

from collections.abc import Iterator

from ....analysis.comparison.breakdown import ChangeDistribution
from ....analysis.comparison.effects import Order, Status
from ....analysis.comparison.parts import Part, leading, parts, problem_of
from ....analysis.comparison.result import Result
from ... import formatting as fmt
from .words import Places, case_change, has_few, mean_change, share_text, told, varying

LINE = 0.01
"""Changes from here on are counted as gains and losses."""

MOST_PARTS = 6
"""More parts than these have no sentences each: the tables have them."""


def takeaways(result: Result) -> Iterator[str]:
    """Yield the sentences, the most important first: what broke, how much, everywhere, at whose cost, worth what."""
    places = Places.of(result)
    found = parts(result)
    yield from _outcomes(result, places)
    if has_few(result):
        yield from (said for lead in leading(result) for said in _saved(result, places, lead))
    elif len(found) > MOST_PARTS:
        yield _over_parts(result)
    else:
        for part in found:
            yield _range(result, places, part)
        for lead in leading(result):
            yield from _bought(places, lead, [part for part in found if part.group == lead.group])
            yield from _models(result, lead)
            yield from _saved(result, places, lead)


def _over_parts(result: Result) -> str:
    """Where the geometric means lie when there are too many for a sentence each."""
    means = [(change, part) for part in leading(result) if (change := part.change) is not None]
    means.sort(key=lambda one: one[0].ratio)
    (best, most), (worst, least) = means[0], means[-1]
    return (
        f"The geometric means of {fmt.plural(len(means), 'group')} run from {mean_change(worst).text} "
        f"({told(result, least)}) to {mean_change(best).text} ({told(result, most)}) of time."
    )


def _range(result: Result, places: Places, part: Part) -> str:
    spread = part.distribution()
    assert spread is not None
    rows = part.cases.sort_values("effect", kind="stable").to_dict("records")
    most, least = rows[0], rows[-1]
    name, known = told(result, part), varying(result)
    if len(rows) == 1:
        return f"{name}: time {case_change(most).text} in the only case, {places.name(most, known)}."
    median = share_text(spread.median, part.cases)
    every = " Every case loses." if spread.least > 0 else " Every case gains." if spread.most < 0 else ""
    return (
        f"{name}: time from {case_change(most).text} at {places.name(most, known)} to "
        f"{case_change(least).text} at {places.name(least, known)}; median {median}; "
        f"{_beyond(result, spread, -LINE)} gain 1% or more, {_beyond(result, spread, LINE)} lose 1% or more.{every}"
    )


def _beyond(result: Result, spread: ChangeDistribution, step: float) -> str:
    """How many cases lie beyond a line: "82 / 83 (80 verified)"; of tables nothing is verified."""
    (count,) = [count for count in spread.counts if count.step == step]
    verified = "" if result.order is Order.IMPORTED else f" ({count.verified} verified)"
    return f"{fmt.count(count.seen, spread.cases)}{verified}"


def _bought(places: Places, lead: Part, others: list[Part]) -> Iterator[str]:
    """Cases that lose in a pass and gain in the one that counts: the loss is paid for, but it is there."""
    winners = {problem_of(row): row for row in lead.cases.to_dict("records") if row["effect"] < 0}
    for part in others:
        if part is lead or part.pass_ == lead.pass_:
            continue
        losing = part.cases[part.changes() >= LINE].sort_values("effect", ascending=False, kind="stable")
        rows = [row for row in losing.to_dict("records") if problem_of(row) in winners]
        if rows:
            still = "all of them gain" if len(rows) == len(losing) else f"{len(rows)} of them gain"
            total = fmt.plural(len(losing), "case loses", "cases lose")
            yield (
                f"{total} 1% or more in {part.pass_}; {still} in {lead.pass_}: {places.numbering.title} "
                f"{places.numbers(rows)}."
            )


def _models(result: Result, part: Part) -> Iterator[str]:
    means = [
        (change.ratio, model, mean_change(change).text)
        for model in map(str, part.cases["model"].unique())
        if (change := part.of_model(model).change) is not None
    ]
    if len(means) > 1:
        best, worst = min(means), max(means)
        yield (
            f"{told(result, part)}, by model: geometric means from {worst[2]} ({worst[1]}) to {best[2]} ({best[1]})."
        )


def _saved(result: Result, places: Places, part: Part) -> Iterator[str]:
    """What all cases take together, which the long ones decide, and which one matters most."""
    cases = part.cases
    if len(cases) < 2:
        return
    base, head = float(cases["base_gmean_s"].sum()), float(cases["head_gmean_s"].sum())
    if base == head:
        return
    top = max(cases.to_dict("records"), key=lambda row: abs(row["base_gmean_s"] - row["head_gmean_s"]))
    moved = float(top["base_gmean_s"] - top["head_gmean_s"])
    word = "saved" if head < base else "lost"
    own = "" if (moved > 0) == (head < base) else " (in the other direction)"
    yield (
        f"{told(result, part)}: one launch of every case takes {fmt.time(base)} in base and {fmt.time(head)} in head, "
        f"{fmt.time(abs(base - head))} {word} ({fmt.change(head / base)} as a ratio of sums); the case that moves most "
        f"time is {places.name(top, varying(result))} with {fmt.time(abs(moved))}{own}."
    )


def _outcomes(result: Result, places: Places) -> Iterator[str]:
    cases = result.effects.cases
    for status, words in (
        (Status.FIXED, "did not pass in base but passed in head"),
        (Status.BROKEN, "passed in base but not in head"),
    ):
        rows = cases[cases["status"] == status].to_dict("records")
        if rows:
            passes = ", ".join(dict.fromkeys(str(row["pass"]) for row in rows))
            what = fmt.plural(len({places.numbering[row] for row in rows}), "problem")
            yield f"{what} {words}: {places.numbering.title} {places.numbers(rows)} ({passes})."
