"""The headline: the three numbers that a reader takes away, and what concerns the run as a whole."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from ....analysis.roofline.bounds import Bound
from ....analysis.run.headline import BestSpeedup, Headline
from ....analysis.run.headline import headline as find
from ....shapes.problem import Op
from ... import formatting as fmt
from ...cells import interval_text, median_text
from ...model import Block, KeyNumber, KeyNumbers, Remarks, Section, Share, Text
from ...terms import BOUNDS
from ...view import View

Cards = Callable[[View], Iterator[KeyNumber]]


def headline(view: View, *cards: Cards) -> Section:
    """Build the headline block of `cards`, of the usual three if there are none, and the warnings under it."""
    found = find(view.analysis)
    chosen = cards or (best, crossover, bounds)
    items = [item for card in chosen for item in card(view)] or [_best(view, found)]
    if found.impossible:
        left = f"excluded, faster than the device allows: {fmt.count(found.impossible, found.passed)} cells"
        items[0] = replace(items[0], detail=f"{items[0].detail.removesuffix('.')}; {left}")
    blocks: list[Block] = [KeyNumbers(tuple(items))]
    if view.analysis.warnings:
        blocks.append(Text("What concerns the run as a whole:"))
        blocks.append(Remarks(tuple(sorted(view.analysis.warnings, key=_rank))))
    return Section("headline", "Headline", tuple(blocks))


def _rank(warning: str) -> int:
    """Rank a warning: other providers compared, wrong outputs, impossible times, then what keeps numbers undecided."""
    return next(
        (
            rank
            for rank, word in enumerate(("time here", "incorrect", "faster than", "disturbed", "slow"))
            if word in warning
        ),
        9,
    )


def best(view: View) -> Iterator[KeyNumber]:
    """The best ratio of any challenger, or why there is none."""
    yield _best(view, find(view.analysis))


def crossover(view: View) -> Iterator[KeyNumber]:
    """The median crossover of the first challenger, or why there is none."""
    yield _crossover(find(view.analysis))


def bounds(view: View) -> Iterator[KeyNumber]:
    """Yield the shares of the limits that bound the cells of all providers."""
    yield _bounds(find(view.analysis))


def _best(view: View, found: Headline) -> KeyNumber:
    label, best = f"Best speedup over {view.baseline}", found.best
    if best is None:
        return KeyNumber(label, "none", _sentence(found.uncompared))
    interval = f"95% interval {fmt.ratio_interval(best.low, best.high)}" if best.low is not None else "no interval"
    pass_ = "" if best.op == Op.QUANTIZE else f"{best.pass_}, "
    slice_ = f"{pass_}{best.dtype}, {best.scheme}, {best.cache}"
    where = f"{best.provider}, {fmt.shape(best.shape)}, M={best.M}, {slice_}"
    if best.verified and best.settled:
        return KeyNumber(
            label,
            fmt.ratio(best.ratio, best.low, best.high),
            f"{where}, {interval}{_choice(best)}",
            best.ratio,
            note=best.note,
        )
    if best.verified:
        text = fmt.ratio_interval(best.low, best.high)
        return KeyNumber(label, text, f"not settled: this 95% interval spans more than 2×; {where}", note=_more(best))
    if best.slower_everywhere:
        open_ = best.cells - best.slower
        doubt = f", not verified at {fmt.count(open_, best.cells)} cells" if open_ else ""
        largest = (
            f"largest ratio {fmt.ratio(best.ratio, best.low, best.high)}: "
            if best.settled or best.low is None
            else "nearest: "
        )
        return KeyNumber(label, f"slower everywhere{doubt}", f"{largest}{where}, {interval}", note=best.note)
    if best.low is None or best.settled:
        text = f"none verified (largest {fmt.undecided(best.ratio, best.low, best.high)})"
        return KeyNumber(label, text, f"{where}, {interval}", note=_more(best))
    return KeyNumber(label, "none verified", f"not settled: {where}, {interval}", note=_more(best))


def _choice(best: BestSpeedup) -> str:
    """Say that a larger ratio is in a grid, where one does; which one is not worth a headline."""
    if fmt.ratio(best.largest) == fmt.ratio(best.ratio):
        return ""
    return "; ranked by the lower end of the interval, and the grids hold larger, less certain ratios"


def _more(best: BestSpeedup) -> str:
    includes = best.low is not None and best.high is not None and best.low <= 1 <= best.high
    doubt = "no interval" if best.low is None else "the interval includes 1" if includes else "the interval is wide"
    return "; ".join(filter(None, (f"{doubt}: measure more rounds", best.note)))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _crossover(found: Headline) -> KeyNumber:
    median = found.crossover
    if median is None:
        why = found.uncompared.partition(" (")[0]  # the card beside it tells of each challenger
        return KeyNumber("Median crossover M", "none", _sentence(why or "the run has no crossover"))
    label = f"Median crossover, {median.challenger} against {median.incumbent}"
    if not median.is_informative:
        return KeyNumber(label, median_text(median), _sentence("; ".join(median.warnings)))
    setting = ", ".join(median.setting_words)
    if median.between is None:
        counts = ", ".join(f"{count} {status}" for status, count in median.statuses.items())
        return KeyNumber(label, median_text(median), f"{setting}; {counts}")
    interval = f", 95% interval {interval_text(median)}" if interval_text(median) else ""
    within = f"within {fmt.m_interval(*median.between)}{interval}"
    shapes = fmt.plural(len(median.places), "shape")
    where = f"{setting}; {shapes}, {within}; {median.challenger} is faster {median.side} it"
    beyond, before = median.places.count(math.inf), median.places.count(0.0)
    parts = [
        where,
        *([f"{beyond} beyond the last M"] if beyond else []),
        *([f"{before} before the first"] if before else []),
    ]
    value = None if median.median_M is None or math.isinf(median.median_M) else median.median_M
    return KeyNumber(label, median_text(median), ", ".join(parts), value, note="; ".join(median.warnings))


def _bounds(found: Headline) -> KeyNumber:
    label = "What bounds the cells"
    if not found.shares:
        why = (
            "No ceiling was measured for these cells: see rooflens calibrate."
            if found.passed
            else "No cell has a time."
        )
        return KeyNumber(label, "unknown", why)
    most = max(found.shares, key=lambda part: part.share)
    shares = tuple(
        Share(part.bound_class, fmt.share(part.share), part.share, part.bound_class) for part in found.shares
    )
    meaning = BOUNDS[Bound(most.bound_class)]
    detail = f"{most.bound_class}: {meaning}. {fmt.count(found.passed, found.cells)} cells have a time."
    return KeyNumber(label, f"{fmt.share(most.share)} {most.bound_class}", detail, most.share, shares=shares)
