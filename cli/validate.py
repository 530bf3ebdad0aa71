"""`rooflens validate`: are run folders complete, what is missing, and would they merge?"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..api.run_folders import missing_units
from ..reports.listing import listing
from ..reports.model import Block, Bullets, Remarks, Section, Text
from ..shapes.errors import CorrectnessError, IncompleteError, RooflensError
from ..shapes.verdict import Verdict
from .shared.output import plain, print_json
from .shared.runs import find_run
from .shared.tables import show

if TYPE_CHECKING:
    from ..analysis.frames.load import RunData
    from ..harness.storage.merge_conflicts import Obstacle
    from ..harness.storage.shards import Shard


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a run folder holds. A unit is one (cell, round); `missing_units` counts those still to be measured.

    `not_begun` names the shapes of the suite without a stored unit; `verdicts` counts the
    cells that were begun: passed, or what they failed with.
    """

    run: str
    folder: Path
    suite: str
    planned_units: int
    stored_units: int
    missing_units: int
    cells: int
    samples: int
    ceilings: int
    verdicts: Mapping[str, int]
    not_begun: tuple[str, ...]

    @property
    def needless_units(self) -> int:
        """Planned rounds of cells that failed or were declined in another round: they will not be measured."""
        return max(0, self.planned_units - self.stored_units - self.missing_units)

    @property
    def complete(self) -> bool:
        """True when a resumed run would have nothing to do."""
        return self.missing_units == 0


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=find_run)
@click.option(
    "--strict", is_flag=True, help="Exit 4 when units are missing or runs do not merge, 5 when an output was wrong."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object, or a list of them for several runs.")
def validate(runs: tuple[Path, ...], strict: bool, as_json: bool) -> None:
    """Check run folders: are they complete, what is missing, would they merge?

    RUN is the folder of a run, its name under ./runs, or `latest`. Every table is checked against the schema; an
    invalid field is named by file, line and column. A round that a failure made unnecessary does not count as missing.
    For several runs, reports also whether `rooflens merge` would join them, and what prevents it. Without --strict the
    exit code is 0, whatever is found.

    \b
    Examples:
      rooflens validate latest
      rooflens validate runs/h200 --strict --json
      rooflens validate runs/job-*
    """
    from ..analysis.frames.load import load_run

    found = [take_inventory(load_run(run)) for run in runs]
    reasons = _obstacles(runs) if len(runs) > 1 else []
    if as_json:
        print_json(_as_json(found, reasons))
    else:
        show(*map(inventory_section, found), *([_merging(len(found), reasons)] if len(found) > 1 else []))
    if strict:
        _be_strict(found, reasons)


def take_inventory(run: "RunData") -> Inventory:
    """Count what is stored and what is missing; pure."""
    verdicts: Counter[str] = Counter()
    for _, words in run.cells.groupby("cell_id", sort=False)["verdict"]:
        failures = [word for word in words if Verdict(word).is_final]
        verdicts[failures[0] if failures else Verdict.PASSED.value] += 1
    begun = set(zip(run.cells["model"], run.cells["layer"], strict=True))
    shapes = [(shape.model, shape.layer) for shape in run.manifest.shapes]
    return Inventory(
        run=run.id,
        folder=run.folder,
        suite=run.manifest.suite,
        planned_units=run.coverage.rounds,
        stored_units=len(run.cells),
        missing_units=run.missing_units,
        cells=verdicts.total(),
        samples=len(run.samples),
        ceilings=len(run.ceilings),
        verdicts=dict(verdicts),
        not_begun=tuple(f"{model} {layer}" for model, layer in shapes if (model, layer) not in begun),
    )


def inventory_section(found: Inventory) -> Section:
    """List what a run holds, and how to resume one that is not complete."""
    rows: list[tuple[str, object]] = [
        ("run", found.run),
        ("suite", found.suite),
        ("units planned (cell, round)", found.planned_units),
        ("units stored", found.stored_units),
        ("units missing", found.missing_units),
        *([("units not needed (their cell did not pass)", found.needless_units)] if found.needless_units else []),
        ("cells", found.cells),
        *((f"cells {verdict}", count) for verdict, count in found.verdicts.items()),
        ("samples", found.samples),
        ("ceilings", found.ceilings),
    ]
    blocks: list[Block] = [listing(("what", "found"), rows, long=("found",))]
    if found.not_begun:
        blocks.append(Text(f"shapes not begun: {', '.join(found.not_begun)}"))
    if not found.complete:
        blocks.append(Remarks((missing_units(found.missing_units, found.folder),)))
    return Section("inventory", found.run, tuple(blocks))


def _obstacles(runs: tuple[Path, ...]) -> "list[Obstacle]":
    """Everything that prevents a merge, a run that is still being written included."""
    from ..harness.storage.merge_conflicts import obstacles
    from ..harness.storage.shards import in_order, opened

    shards: list[Shard] = []
    closed: list[Obstacle] = []
    for run in runs:
        try:
            with opened([run]) as found:
                shards += found
        except RooflensError as error:
            closed.append((run, str(error)))
    return [*closed, *obstacles(in_order(shards))]


def _as_json(found: list[Inventory], reasons: "list[Obstacle]") -> Any:
    """One run: its inventory. Several: a list, each with what prevents its merge with those that began before it."""
    objects = [plain(one) | {"needless_units": one.needless_units, "complete": one.complete} for one in found]
    if len(found) == 1:
        return objects[0]
    return [
        entry | {"obstacles": [reason for folder, reason in reasons if folder == one.folder]}
        for one, entry in zip(found, objects, strict=True)
    ]


def _merging(count: int, reasons: "list[Obstacle]") -> Section:
    if not reasons:
        return Section("merging", "Merging", (Text(f"these {count} runs merge: rooflens merge -o OUT RUN..."),))
    found = Bullets(tuple(reason for _, reason in reasons))
    return Section("merging", "Merging", (Text(f"these {count} runs do not merge:"), found))


def _be_strict(found: list[Inventory], reasons: "list[Obstacle]") -> None:
    for one in found:
        if wrong := one.verdicts.get(Verdict.INCORRECT, 0):
            raise CorrectnessError(f"{one.run}: {wrong} of {one.cells} cells gave a wrong output")
    for one in found:
        if not one.complete:
            raise IncompleteError(f"{one.run}: {missing_units(one.missing_units, one.folder)}")
    if reasons:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        raise IncompleteError(f"these {len(found)} runs do not merge: {reasons[0][1]}{more}")
