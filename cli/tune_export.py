"""`rooflens tune --export`: write a tuned table in the shape of aiter's, and say what is not in it."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..reports.formatting import plural
from ..shapes.aiter import fastest, tuned_csv
from ..shapes.errors import UsageError
from ..shapes.tuned import load

if TYPE_CHECKING:
    import pandas as pd


def write(table: Path, frame: "pd.DataFrame", file: Path) -> None:
    """Write the file; `frame` is the content of `table`."""
    if not frame["winner"].any():
        click.echo(f"nothing written to {file}: no cell has a winner", err=True)
        return
    from ..analysis.tuning import CELL

    choices = load(table).choices
    rows = fastest(choices)
    try:
        file.write_text(tuned_csv(choices), encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"--export {file}: {error.strerror or error}; choose another file") from None
    cells = frame[[name for name in CELL if name != "source"]].drop_duplicates()
    chosen = Counter(key.provider for key in choices)
    without = Counter(cells["provider"].tolist()) - chosen
    slower = chosen - Counter(key.provider for key in rows)
    parts = [
        f"{counts.total()} {why} ({', '.join(f'{name} {count}' for name, count in counts.items())})"
        for counts, why in ((slower, "slower than another provider's"), (without, "without a winner"))
        if counts
    ]
    left = slower.total() + without.total()
    told = f"; {plural(left, 'cell')} left out: {', '.join(parts)}" if left else ""
    click.echo(f"{plural(len(rows), 'row')} written to {file}{told}", err=True)
