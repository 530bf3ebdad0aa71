"""The headline: the three numbers that a reader takes away, and what concerns the run as a whole."""

import math

from ...analysis.bounds import Bound
from ...analysis.headline import BestSpeedup, Headline
from ...analysis.headline import headline as find
from ...analysis.median_crossover import MedianCrossover
from ...shapes.problem import Pass
from .. import formatting as fmt
from ..model import Bullets, KeyNumber, KeyNumbers, Section, Share, Text
from ..view import View
from .crossover import interval_text, median_text
from .roofline import MEANINGS


def headline(view: View) -> Section:
    """Build the headline block and the warnings under it."""
    found = find(view.analysis)
    blocks: list[KeyNumbers | Text | Bullets] = [
        KeyNumbers((_best(view, found.best), _crossover(view, found.crossover), _bounds(found)))
    ]
    if view.analysis.warnings:
        blocks.append(Text("What concerns the run as a whole:"))
        blocks.append(Bullets(tuple(view.analysis.warnings)))
    return Section("headline", "Headline", tuple(blocks))


def _best(view: View, best: BestSpeedup | None) -> KeyNumber:
    label = f"Best speedup over {view.baseline}"
    if best is None:
        return KeyNumber(label, "none", "No provider and the baseline both have a time for the same cell.")
    interval = f", 95% interval {fmt.ratio_interval(best.low, best.high)}" if best.low is not None else ", no interval"
    what = "" if best.pass_ == Pass.FWD else f"{best.pass_}, "
    where = f"{best.provider}, {fmt.shape(best.shape)}, M={best.M}, {what}{best.dtype}, {best.cache}"
    if best.verified:
        return KeyNumber(label, fmt.ratio(best.ratio), f"{where}{interval}", best.ratio, note=best.note)
    if best.high is not None and best.high < 1:  # the largest ratio is verified too: to be slower
        return KeyNumber(label, f"none (largest {fmt.ratio(best.ratio)})", f"{where}{interval}", note=best.note)
    doubt = "the interval includes 1, or there is none: measure more rounds"
    note = "; ".join(filter(None, (doubt, best.note)))
    return KeyNumber(label, f"none verified (largest {fmt.undecided(best.ratio)})", f"{where}{interval}", note=note)


def _crossover(view: View, median: MedianCrossover | None) -> KeyNumber:
    if median is None:
        return KeyNumber("Median crossover M", "none", "No challenger was measured beside the baseline.")
    label = f"Median crossover, {median.challenger} against {median.incumbent}"
    interval = f"95% interval {interval_text(median)}" if interval_text(median) else "no interval"
    where = f"{median.dtype}, {median.cache}; {fmt.plural(median.shapes, 'shape')}, {interval}"
    beyond = median.statuses.get("always", 0) + median.statuses.get("right_censored", 0)
    before = median.statuses.get("never", 0)
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
        return KeyNumber(label, "unknown", "No ceiling was measured, or no cell has a time.")
    most = max(found.shares, key=lambda part: part.share)
    shares = tuple(
        Share(part.bound_class, fmt.share(part.share), part.share, part.bound_class) for part in found.shares
    )
    meaning = MEANINGS[Bound(most.bound_class)]
    detail = f"{most.bound_class}: {meaning}. {fmt.count(found.passed, found.cells)} cells have a time."
    return KeyNumber(label, f"{fmt.share(most.share)} {most.bound_class}", detail, most.share, shares=shares)
