"""What became of a run, as counted from its cells.csv: which error it ends with, and nothing that takes an analysis."""

from dataclasses import dataclass
from pathlib import Path

from ..shapes.errors import CorrectnessError, IncompleteError, RooflensError
from ..shapes.files import csv_file
from ..shapes.files.stored_file import open_table
from ..shapes.run_folder.columns import CELLS
from ..shapes.run_folder.coverage import Coverage, coverage
from ..shapes.run_folder.manifest import MANIFEST, Manifest, read_manifest
from ..shapes.verdict import Verdict
from .run_folders import how_to_resume


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run.

    verdicts    distinct pairs of provider and verdict
    unfinished  something planned is missing, which --resume would measure
    """

    folder: Path
    manifest: Manifest
    coverage: Coverage
    verdicts: tuple[tuple[str, str], ...]
    unfinished: bool

    @property
    def error(self) -> RooflensError | None:
        """The worst failure: a wrong output before other failures, and these before what is missing; None without."""
        failed = [(name, verdict) for name, verdict in self.verdicts if verdict not in _FINE]
        if failed:
            wrong = any(verdict == Verdict.INCORRECT for _, verdict in failed)
            names = ", ".join(f"{name} {verdict}" for name, verdict in failed)
            return (CorrectnessError if wrong else IncompleteError)(
                f"failed: {names}; the column reason of cells.csv says why"
            )
        return IncompleteError(f"the sweep is not complete: {how_to_resume(self.folder)}") if self.unfinished else None


_FINE = (Verdict.PASSED, Verdict.UNSUPPORTED)


def outcome_of(folder: Path, complete: bool = False) -> Outcome:
    """Count the cells of a run; `complete`: nothing is left to measure, whatever run.json says was planned.

    Raises IncompleteError where no round was finished.
    """
    path, rows = folder / CELLS.file, []
    if (folder / MANIFEST).is_file() and (table := open_table(path)):
        with table:
            rows = [row for _, row in csv_file.rows(table, path, way_out=csv_file.RESTORE)]
    if not rows:
        raise IncompleteError(f"no round was finished: {how_to_resume(folder)}")
    manifest = read_manifest(folder / MANIFEST)
    counted = coverage(rows, manifest)
    refining = any(not part.complete for part in manifest.refinements) and not complete
    return Outcome(
        folder,
        manifest,
        counted,
        verdicts=tuple(dict.fromkeys((row["provider"], row["verdict"]) for row in rows)),
        unfinished=refining or (not complete and counted.rounds_to_do > 0),
    )
