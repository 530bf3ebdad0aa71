"""What one architecture measures: its jobs, where they are stored, and what its stations are told."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..plan.plan import Cell
from .forecast import Forecast
from .job_scheduler import Dealer
from .jobs import AnyJob, Told
from .protocol import AnyBrief, Parcel


class Landed(Told, Protocol):
    """What came home, as it was read."""

    @property
    def elapsed_s(self) -> float:
        """Seconds that the station spent on it."""


class Store(Protocol):
    """Where what comes home is kept: `result_store.Landing`, or one for each arm of a comparison."""

    @property
    def jobs(self) -> Mapping[str, AnyJob]:
        """The plan by key."""

    @property
    def done(self) -> Mapping[str, float]:
        """Seconds of each job that is stored as a whole."""

    @property
    def begun(self) -> Mapping[str, Hashable]:
        """The device of each job that is stored in part."""

    def open_jobs(self) -> Sequence[AnyJob]:
        """Return the jobs that are not stored as a whole, in the order of the plan."""

    def earlier(self, job: AnyJob) -> bytes:
        """Return what is stored of a job that is begun."""

    def land(self, parcel: Parcel) -> Landed:
        """Store a parcel. Raises UsageError when it is not of this run."""

    def event(self, text: str) -> None:
        """Note what happened."""

    def close(self) -> None:
        """Wait for the disk, and let go of the folder."""


@dataclass(slots=True)
class Lane:
    """What one architecture measures, on at most `limit` devices (None: on all that there are).

    `more` is asked for further cells when everything is at home, as in `Sweep`.
    """

    arch: str
    landing: Store
    brief: AnyBrief
    limit: int | None = None
    more: Callable[[], tuple[Cell, ...]] | None = None
    forecast: Forecast = field(default_factory=Forecast)
    dealer: Dealer = field(default_factory=Dealer)
    abandoned: str = ""
    """Why nothing more of it is measured; "" while something is."""
    jobs_are: str = "problems"
    """What its jobs are called."""
