"""Pin the configurations of a scan: each variant runs the default of the shape that it varies.

A default may depend on N and K. So that nothing but the size changes along a scan, the providers are asked, in a
separate process, for the defaults of the shapes themselves, and a table pins these for all variants.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...shapes.errors import UsageError
from ...shapes.files.csv_file import csv_text
from ...shapes.run_folder.columns import TUNING
from ...shapes.run_folder.manifest import TUNED_COPY, WORKER_LOG
from ...shapes.tuned import HELD, Key, TunedTable, load
from ..plan.plan import Cell
from ..storage.store import RunStore
from ..storage.tables import fields
from ..worker.messages import Setup
from .supervisor import SupervisedWorker


def pin_defaults(
    store: RunStore, varied: Mapping[Cell, Cell], setup: Setup, should_stop: Callable[[], bool]
) -> TunedTable | None:
    """Keep the pinned defaults as the tuned table of a run; None when no provider has any."""
    text = pinned_table(varied, setup, store.folder / WORKER_LOG, should_stop)
    if text.count("\n") < 2:
        return None
    kept = store.keep(TUNED_COPY, text)
    if kept.read_text(encoding="utf-8") != text:  # left by a start that failed
        raise UsageError(f"{kept} is of another scan: remove it, or choose another -o")
    return load(kept)


def pinned_table(
    varied: Mapping[Cell, Cell], setup: Setup, log: Path, should_stop: Callable[[], bool] = lambda: False
) -> str:
    """Return the text of a tuned table that pins each cell of a scan to the default of the cell that it varies.

    A provider without candidates has no rows. Raises UsageError where two shapes of other defaults become the same
    GEMM, and WorkerSetupError when the providers cannot be asked; `log` has what they printed. Raises Interrupted when
    `should_stop` says so.
    """
    bases = tuple(dict.fromkeys(varied.values()))
    worker = SupervisedWorker(replace(setup, asked=bases), log, should_stop)
    worker.kill()
    device, defaults = worker.ready.device, dict(zip(bases, worker.ready.defaults, strict=True))
    rows: dict[Key, tuple[Cell, Mapping[str, Any]]] = {}
    for cell, base in varied.items():
        config = defaults[base]
        if config is None:
            continue
        key = Key.of(device, cell.problem, cell.scheme, cell.provider, cell.cache)
        other, earlier = rows.setdefault(key, (base, config))
        if earlier != config:
            raise UsageError(
                f"--scan: {other.shape.label} and {base.shape.label} become the same GEMM ({cell.problem}), but "
                f"{cell.provider} has other defaults for them: scan one of them at a time, by --filter"
            )
    return csv_text(TUNING.names, (_row(number, *item) for number, item in enumerate(rows.items())))


def _row(number: int, key: Key, pinned: tuple[Cell, Mapping[str, Any]]) -> list[str]:
    base, config = pinned
    place = {name.rstrip("_"): value for name, value in key._asdict().items()}
    columns = {
        "cell_id": f"held-{number}", "search": 0, "candidate": 0, "config": dict(config), "verdict": HELD,
        "reason": f"the default of {base.shape.label} at M={base.problem.M}", "winner": True, "near_tie": False,
        "candidates": 1, "source": "",
    }  # fmt: skip
    return fields(TUNING, place | columns)
