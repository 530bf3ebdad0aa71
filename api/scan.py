"""`rooflens run --scan`: the variants of the selected shapes, and the table that pins their configurations."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..shapes.errors import UsageError
from ..shapes.request import Request
from ..shapes.run_folder.manifest import WORKER_LOG, Manifest
from ..shapes.scan import Scan
from ..shapes.suite import Suite

if TYPE_CHECKING:
    from ..harness.plan.plan import Cell
    from ..harness.storage.store import RunStore
    from ..harness.worker.messages import Setup


def scan_of(request: Request, suite: Suite) -> Scan | None:
    """Read the request; None without --scan. Raises UsageError for options that exclude one."""
    if request.scan is None:
        return None
    if request.tuned or suite.protocol.tuning != "default":
        raise UsageError("--scan pins the default configuration of each shape: omit --tuned and --tuning")
    if request.refine:
        raise UsageError("--scan varies N or K, and --refine adds M: measure one of the two at a time")
    return Scan.parse(request.scan)


def variants(cells: "tuple[Cell, ...]", scan: Scan) -> "dict[Cell, Cell]":
    """Map each cell of the scan to the one that it varies."""
    from ..harness.plan.extra_cells import scanned

    return scanned(cells, scan)


def describe_scan(content: Manifest, scan: Scan | None, varied: "Mapping[Cell, Cell]", resume: bool) -> None:
    """Describe the scan in run.json. Raises UsageError when the resumed run is of another scan, or of none."""
    before, now = content.scan.text if content.scan else None, scan.text if scan else None
    if resume and before != now:
        raise UsageError(
            f"cannot resume: --scan was {before or 'not given'} and is {now or 'not given'} now; choose another -o"
        )
    if scan:
        from ..harness.plan.extra_cells import described

        content.scan = described(scan, varied)


def pin_defaults(
    store: "RunStore", name: str, varied: "Mapping[Cell, Cell]", setup: "Setup", should_stop: Callable[[], bool]
) -> Path | None:
    """Store the table of the pinned defaults as file `name` of the run; None when no provider has any."""
    from ..harness.sweep.pinned_defaults import pinned_table

    text = pinned_table(varied, setup, store.folder / WORKER_LOG, should_stop)
    if text.count("\n") < 2:
        return None
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".csv") as file:
        file.write(text)
        file.flush()
        kept = store.keep(name, Path(file.name))
    if kept.read_text(encoding="utf-8") != text:  # left by a start that failed
        raise UsageError(f"{kept} is of another scan: remove it, or choose another -o")
    return kept
