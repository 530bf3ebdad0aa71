"""How wide the 95 % interval of a time is after 2, 3 and 5 rounds, from stored runs: the table of docs/statistics.md.

    python benchmarks/interval_widths.py docs/results/h200-w4a16-models docs/results/cpu-llm4bit-quick

Of each run the first rounds are taken as if there were no others. A width is that to either side of the time, at the
median cell, and at the cell that 90 % of the others are below.
"""

import sys
from pathlib import Path

import numpy as np
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.summarize import round_medians
from rooflens.analysis.statistics.intervals import mean_interval

ROUNDS = (2, 3, 5)


def widths(folder: Path) -> tuple[int, dict[int, tuple[float, float]]]:
    """Return the number of cells, and by number of rounds the half-width at the median and the 90 % cell as a share.

    Cells that lack one of the rounds are left out of that number; a number that no cell has is left out.
    """
    medians = round_medians(load_run(folder))
    found = {}
    for rounds in ROUNDS:
        taken = medians[medians["round"] < rounds]
        interval = mean_interval(np.log(taken["median_s"]), taken["cell_id"])
        half = np.expm1((interval["high"] - interval["low"]) / 2)[interval["count"] == rounds]
        if len(half):
            found[rounds] = float(half.median()), float(half.quantile(0.9))
    return medians["cell_id"].nunique(), found


def table(folders: list[Path]) -> list[str]:
    """Return the lines of the table."""
    lines = [f"| run | cells | {' | '.join(f'{rounds} rounds' for rounds in ROUNDS)} |", "|---" + "|--:" * 4 + "|"]
    for folder in folders:
        cells, found = widths(folder)
        texts = (f"{found[n][0]:.1%}, {found[n][1]:.1%}".replace("%", " %") if n in found else "" for n in ROUNDS)
        lines.append(f"| {folder.name} | {cells} | {' | '.join(texts)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table([Path(argument) for argument in sys.argv[1:]])))
