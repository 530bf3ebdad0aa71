"""`rooflens validate`: is a run folder whole, and what is missing?"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..shapes.errors import CorrectnessError, IncompleteError
from ..shapes.verdict import Verdict
from .output import plain, print_json, print_table
from .runs import find_run, go_on

if TYPE_CHECKING:
    from ..analysis.load import RunData


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
    def complete(self) -> bool:
        """True when a resumed run would have nothing to do."""
        return self.missing_units == 0


@click.command()
@click.argument("run", type=find_run)
@click.option("--strict", is_flag=True, help="Exit 4 when units are missing, 5 when an output was wrong.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def validate(run: Path, strict: bool, as_json: bool) -> None:
    """Check a run folder: is it whole, and what is missing?

    RUN is the folder of a run, its name under ./runs, or `latest`. Every table is read against the schema; a wrong
    field is named by file, line and column. A round that a failure made needless does not count as missing.

    \b
    Examples:
      rooflens validate latest
      rooflens validate runs/h200 --strict --json
    """
    from ..analysis.load import load_run

    found = take_inventory(load_run(run))
    if as_json:
        print_json(plain(found) | {"complete": found.complete})
    else:
        _show(found)
    if strict:
        _be_strict(found)


def take_inventory(run: "RunData") -> Inventory:
    """Count what is stored and what is missing; pure."""
    verdicts: Counter[str] = Counter()
    for _, words in run.cells.groupby("cell_id", sort=False)["verdict"]:
        failures = [word for word in words if Verdict(word).is_final]
        verdicts[failures[0] if failures else Verdict.PASSED.value] += 1
    begun = set(zip(run.cells["model"], run.cells["layer"], strict=True))
    shapes = [(str(shape["model"]), str(shape["layer"])) for shape in run.manifest["shapes"]]
    return Inventory(
        run=run.id,
        folder=run.folder,
        suite=str(run.manifest["suite"]),
        planned_units=run.planned_units,
        stored_units=len(run.cells),
        missing_units=run.missing_units,
        cells=verdicts.total(),
        samples=len(run.samples),
        ceilings=len(run.ceilings),
        verdicts=dict(verdicts),
        not_begun=tuple(f"{model} {layer}" for model, layer in shapes if (model, layer) not in begun),
    )


def _show(found: Inventory) -> None:
    rows: list[tuple[str, object]] = [
        ("run", found.run),
        ("suite", found.suite),
        ("units planned (cell, round)", found.planned_units),
        ("units stored", found.stored_units),
        ("units missing", found.missing_units),
        ("cells", found.cells),
        *((f"cells {verdict}", count) for verdict, count in found.verdicts.items()),
        ("samples", found.samples),
        ("ceilings", found.ceilings),
    ]
    print_table(("what", "found"), rows)
    if found.not_begun:
        click.echo(f"shapes not begun: {', '.join(found.not_begun)}")
    if not found.complete:
        click.echo(_way_on(found), err=True)


def _way_on(found: Inventory) -> str:
    return f"{found.missing_units} units are missing: {go_on(found.folder)}"


def _be_strict(found: Inventory) -> None:
    if wrong := found.verdicts.get(Verdict.INCORRECT, 0):
        raise CorrectnessError(f"{found.run}: {wrong} of {found.cells} cells gave a wrong output")
    if not found.complete:
        raise IncompleteError(f"{found.run}: {_way_on(found)}")
