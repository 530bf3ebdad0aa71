"""Rows of the chapter on known limitations: sizes at which memory may be camping."""

from collections.abc import Iterator

from ...analysis.frames.coordinates import size_label
from ...reports import formatting as fmt
from ...reports.sections.summary.known_limitations import Limitation
from ...reports.view import View
from .find import find

MOST = 3
"""Sizes that are named."""


def limitations(view: View) -> Iterator[Limitation]:
    """Yield sizes that stand out among their neighbours, where a run has enough of them to tell."""
    placed = view.cells[view.cells["provider"].isin(view.challengers)]
    if placed.empty:
        return
    suspects = find(placed, view.analysis.rounds, view.run.cells).suspects
    for row in suspects[suspects["explained"] == ""].head(MOST).to_dict("records"):
        padded = f"pad to {row['pad']:.0f}: it takes less time" if fmt.known(row["pad"]) else "look at its neighbours"
        yield Limitation(
            f"{row['provider']} takes {fmt.ratio(row['ratio'])} the time of neighbouring sizes",
            f"{row['axis']}={row['size']:.0f} ({row['model']} {row['layer']} {size_label(row, fmt.TIMES)}), "
            f"M={fmt.sizes(sorted(map(int, row['Ms'])))}",
            f"memory may be camping: {row['ruled_out']} do not explain it; {row['reproduced']}",
            f"{padded}; rooflens camping {view.run_path}",
        )
