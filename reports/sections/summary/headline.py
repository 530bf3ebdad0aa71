"""The headline: how the leading challenger stands against the baseline, and what concerns the run as a whole.

The report of one question heads itself with numbers of its own: rates, means over shapes or sides, a threshold.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from ....analysis.crossover.curve import MEANINGS, CrossoverStatus
from ....analysis.frames.coordinates import SETTING
from ....analysis.run.headline import Ratio, Standing
from ... import formatting as fmt
from ...cells import median_text, ratio_text
from ...model import Block, KeyNumber, KeyNumbers, Remarks, Section, Text
from ...terms import LIMITS
from ...view import View

Card = Callable[[View], Iterator[KeyNumber]]

MOST_MEANS = 9
"""Values of M that a card names; the grids have them all."""

MOST_OTHERS = 6
"""Lines about other challengers and settings."""


def headline(view: View, *cards: Card) -> Section:
    """Build the headline block of `cards`, of the usual three if there are none, and the warnings under it."""
    found = view.headline
    items = [item for card in cards or (means, crossover, limit) for item in card(view)] or [*means(view)]
    if impossible := int(view.cells["impossible"].sum()):
        left = f"excluded, faster than the device allows: {fmt.count(impossible, view.coverage.timed)} cells"
        items[0] = replace(items[0], detail=f"{items[0].detail.removesuffix('.')}; {left}")
    blocks: list[Block] = [KeyNumbers(tuple(items))]
    if others := [_other(view, one) for one in found.standings[1:]]:
        more = fmt.plural(len(others) - MOST_OTHERS, "more is", "more are")
        blocks.append(Text("Other challengers and settings:"))
        blocks.append(
            Remarks((*others[:MOST_OTHERS], *([f"{more} in the grids"] if len(others) > MOST_OTHERS else [])))
        )
    if view.analysis.warnings:
        blocks.append(Text("Notes on the whole run:"))
        blocks.append(Remarks(tuple(sorted(view.analysis.warnings, key=_rank))))
    return Section("headline", "Headline", tuple(blocks))


_RANKED = ("time here", "incorrect", "faster than", "disturbed", "slow")
"""Words of warnings: other providers compared, wrong outputs, impossible times, then what keeps numbers undecided."""


def _rank(warning: str) -> int:
    return next((rank for rank, word in enumerate(_RANKED) if word in warning), len(_RANKED))


def means(view: View) -> Iterator[KeyNumber]:
    """The geometric mean at each M of the leading challenger with its best and worst cell, or why there is none."""
    found = view.headline
    if found.lead is None:
        yield KeyNumber(f"Speedup over {view.baseline}", "none", _sentence(found.uncompared))
        return
    lead = found.lead
    shown = fmt.thinned(lead.means, MOST_MEANS)
    between = ", ".join(_at(one) for one in shown[1:-1])
    cells = f"best {_cell(lead.best)}, worst {_cell(lead.worst)}; " if lead.cells > 1 else ""
    ends = list(dict.fromkeys((shown[0], shown[-1])))
    bounds = [(fmt.ratio_interval(one.low, one.high), one.M) for one in ends if one.low is not None]
    known = ", ".join(f"{text} at M={size}" for text, size in bounds if text != "unknown")
    interval = f" (95% interval {known})" if known else ""
    yield KeyNumber(
        f"{lead.challenger} over {view.baseline}, {view.slice_of(lead.setting).title}",
        " to ".join(map(_at, ends)),
        f"{f'{between}; ' if between else ''}{_over(lead)}{interval}; {cells}{_verified(lead)}",
        lead.means[0].ratio,
        note="; ".join(filter(None, (_doubt(view, lead), _shared_note(view, lead)))),
    )


def _shared_note(view: View, standing: Standing) -> str:
    """Say what every ratio of a challenger is qualified by."""
    mine = (view.ratios["provider"] == standing.challenger) & view.ratios["ratio"].notna()
    notes = set(view.ratios.loc[mine & (view.ratios[[*SETTING]] == [*standing.setting]).all(axis=1), "note"])
    return str(notes.pop()) if len(notes) == 1 else ""


def _at(one: Ratio) -> str:
    return f"{ratio_text(one.ratio, one.low, one.high)} at M={one.M}"


def _cell(one: Ratio) -> str:
    return f"{ratio_text(one.ratio, one.low, one.high)} ({fmt.shape(one.shape)}, M={one.M})"


def _over(standing: Standing) -> str:
    """Say over how many shapes the means are, of how many: 6 shapes, 5 of 6 shapes; M by M where they differ."""
    counts: dict[str, list[int]] = {}
    for one in standing.means:
        of = "" if one.shapes == one.asked else f"{one.shapes} of "
        counts.setdefault(f"{of}{fmt.plural(one.asked, 'shape')}", []).append(one.M)
    if len(counts) == 1:
        return f"geometric mean over {next(iter(counts))}"
    return f"geometric mean over {', '.join(f'{over} at M={fmt.sizes(at)}' for over, at in counts.items())}"


def _verified(standing: Standing) -> str:
    return f"verified faster at {fmt.count(standing.faster, standing.cells)} cells, slower at {standing.slower}"


def _doubt(view: View, standing: Standing) -> str:
    """Say what would settle the means that are not told from 1; "" where all are."""
    if all(one.verified for one in standing.means):
        return ""
    why = "no interval" if any(one.low is None for one in standing.means) else "~: the interval includes 1"
    return "; ".join(filter(None, (why, view.way_out(undecided=view.undecided(standing.challenger, standing.setting)))))


def _other(view: View, standing: Standing) -> str:
    ends = " to ".join(_at(one) for one in dict.fromkeys((standing.means[0], standing.means[-1])))
    part = view.slice_of(standing.setting).title
    return f"{standing.challenger}, {part}: {ends}; {_over(standing)}; {_verified(standing)}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def crossover(view: View) -> Iterator[KeyNumber]:
    """The median crossover of the leading challenger, or why there is none."""
    found = view.headline
    if found.lead is None:
        why = found.uncompared.partition(" (")[0]  # the card beside it tells of each challenger
        yield KeyNumber("Crossover M", "none", _sentence(why))
        return
    label, median = f"Crossover M of {found.lead.challenger}", found.lead.crossover
    if median is None:
        if len(found.lead.means) < 2:
            why = "Only one M has a ratio, and a crossover takes two"
            yield KeyNumber(label, "needs two M", f"{why}; {view.way_out(one_M=True)}.")
        else:
            way_out = view.way_out(undecided=view.undecided(found.lead.challenger, found.lead.setting))
            yield KeyNumber(label, "none", _sentence("; ".join(filter(None, ("neither side is verified", way_out)))))
        return
    if median.between is None:
        told = "; ".join(
            f"{fmt.plural(count, 'shape')}: {MEANINGS[CrossoverStatus(status)]}"
            for status, count in median.statuses.items()
        )
        named = told.replace("the challenger", median.challenger).replace("the incumbent", median.incumbent)
        ends = {"ahead": f"> {found.lead.means[-1].M}", "behind": f"< {found.lead.means[0].M}"}
        if end := ends.get("".join(median.statuses), ""):
            named += " where both ran"
        yield KeyNumber(label, end or "none", named)
        return
    interval = f"95% interval {median.interval_text}" if median.interval_text else "no interval"
    value = median.median_M if median.median_M and median.median_M < math.inf else None
    within = f"within {fmt.m_interval(*median.between)}, " if value else ""
    detail = f"median over {fmt.plural(len(median.places), 'shape')}, {within}{interval}; faster {median.side} it"
    yield KeyNumber(label, median_text(median), detail, value, note="; ".join(median.warnings))


def limit(view: View) -> Iterator[KeyNumber]:
    """What share of the limit the leading challenger reaches where it wins."""
    lead = view.headline.lead
    if lead is None:
        return
    label = f"Share of the limit where {lead.challenger} wins"
    if lead.limit is None:
        text, why = "none", "It is verified faster nowhere."
        if lead.faster:
            text, why = "unknown", "No limit is known for these cells: see rooflens calibrate."
        yield KeyNumber(label, text, why)
        return
    fraction, cells, of = lead.limit
    detail = (
        f"median over the {fmt.plural(cells, 'cell')} at which it is verified faster; for most the limit is "
        f"{LIMITS[of]}"
    )
    yield KeyNumber(label, fmt.share(fraction), detail, fraction)
