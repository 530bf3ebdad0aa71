"""`rooflens run --refine crossover`: after the sweep, measure the M at which the winner changes more finely.

What is added is stored in run.json before any of it is measured, so that a run that was killed can be resumed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..shapes.errors import RooflensError, UsageError, quote, unknown_name
from ..shapes.request import Request
from ..shapes.run_folder.manifest import Manifest, StoredRefinement, glance
from ..shapes.suite import Suite

if TYPE_CHECKING:
    from ..analysis.crossover.refine import Further
    from ..harness.plan.plan import Cell

CROSSOVER = "crossover"
"""What can be refined."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """What --refine asks for. `challenger` "" means the first one of the run that has a time.

    A bracket is narrow enough when its ends are within a factor of `ratio`; `most` counts M per shape and setting.
    """

    challenger: str
    incumbent: str
    ratio: float
    most: int

    @classmethod
    def of(cls, request: Request, suite: Suite) -> "Refinement | None":
        """Read the request; None without --refine. Raises UsageError for a pair that the run does not measure."""
        if (text := request.refine) is None:
            if given := [name for name in ("refine_to", "refine_most") if name in request.protocol]:
                raise UsageError(f"--set {given[0]} goes with --refine crossover")
            return None
        what, equals, pair = text.partition("=")
        challenger, colon, incumbent = pair.partition(":")
        if what != CROSSOVER or (equals and not (challenger and colon and incumbent)):
            raise UsageError(f"--refine {quote(text)}: write crossover, or crossover=CHALLENGER:INCUMBENT")
        incumbent = incumbent or suite.baseline
        for name in filter(None, (challenger, incumbent)):
            if name not in suite.providers:
                raise unknown_name("provider of this run in --refine", name, list(suite.providers))
        others = [challenger] if challenger else [name for name in suite.challengers if name in suite.providers]
        if not set(others) - {incumbent}:
            raise UsageError(
                f"--refine crossover: no challenger of {incumbent} is measured; write crossover=CHALLENGER:INCUMBENT"
            )
        return cls(challenger, incumbent, 1 + suite.protocol.refine_to, suite.protocol.refine_most)

    @property
    def words(self) -> str:
        """The pair for a reader."""
        return f"{self.challenger or 'the leading challenger'} against {self.incumbent}"


class Refiner:
    """Adds M to the plan of one run. `manifest` becomes run.json; what is added and why is kept there."""

    def __init__(self, what: Refinement, folder: Path, cells: "Sequence[Cell]", manifest: Manifest) -> None:
        from ..harness.plan.extra_cells import Surroundings

        self._what, self._folder, self._around = what, folder, Surroundings(cells)
        manifest.refine = self._state = StoredRefinement(
            of=CROSSOVER,
            challenger=what.challenger,
            incumbent=what.incumbent,
            ratio=what.ratio,
            most=what.most,
            added=manifest.refine.added if manifest.refine else [],
        )

    @property
    def complete(self) -> bool:
        """True when no further M is needed."""
        return self._state.complete

    def more(self) -> "tuple[Cell, ...]":
        """Return the cells to measure next; none when every bracket is narrow, or has had all its M."""
        rows = [self._row(one) for one in self._wanted()]
        self._state.added += rows
        self._state.complete = not rows
        return self._around.cells(rows)

    def _wanted(self) -> "list[Further]":
        """Ask the analysis of what is stored by now."""
        from ..analysis.crossover.per_shape import crossovers
        from ..analysis.crossover.refine import PLACE, Further, further
        from ..analysis.frames.load import load_run
        from ..analysis.frames.speedup import speedups
        from ..analysis.run.question import ranked
        from ..analysis.run.summarize import round_medians, summarize

        try:
            run = load_run(self._folder)
        except RooflensError:  # nothing passed: what ends the run says so
            return []
        cells, rounds = summarize(run), round_medians(run)
        passed = set(run.cells.loc[run.cells["verdict"] == "passed", "provider"]) - {self._what.incumbent}
        order = ranked(run, speedups(cells, rounds, self._what.incumbent))
        leading = next((name for name in order if name in passed), "")
        challenger = self._what.challenger or self._state.challenger or leading
        if not {challenger, self._what.incumbent} <= set(run.cells["provider"]):
            return []
        self._state.challenger = challenger
        pair = [challenger, self._what.incumbent]
        found = crossovers(cells, rounds, challenger, self._what.incumbent)
        added = [
            Further(tuple(row[name] for name in PLACE), row["M"])
            for row in self._state.added
            if row["providers"] == pair
        ]
        return further(found, cells, added, self._what.ratio, self._what.most, self._can)

    def _can(self, one: "Further") -> bool:
        return len(self._around.cells_of(self._row(one))) == len(self._row(one)["providers"])

    def _row(self, one: "Further") -> dict[str, Any]:
        """What run.json keeps of one added M, in plain values."""
        from ..analysis.crossover.refine import PLACE

        plain = (value if isinstance(value, str) else int(value) for value in one.place)  # numpy's are no JSON
        place = dict(zip(PLACE, plain, strict=True))
        return place | {"M": one.M, "providers": [self._state.challenger, self._what.incumbent]}


def stored_cells(folder: Path, cells: "Sequence[Cell]") -> "tuple[Cell, ...]":
    """Return the cells that earlier calls added to the run in `folder`, as far as `cells` has any like them.

    An unreadable run.json adds nothing: resuming the run reports what is wrong with it.
    """
    from ..harness.plan.extra_cells import Surroundings

    refinement = glance(folder).refine
    return Surroundings(cells).cells(refinement.added) if refinement else ()
