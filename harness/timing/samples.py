"""Raw samples in seconds, from the timer to the store. No torch: the parent process reads them."""

from dataclasses import asdict, dataclass
from typing import Any

from ..telemetry.reading import INVALIDATING, Reading

NOT_BLOCKED = "not blocked"
"""Reason of a sample that the device had reached before it was queued: the host's latency may be in it."""

MOST_DISCARDED = 1 / 3
"""A cell that would lose a larger share of its samples keeps them all, and is flagged."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Durations of consecutive samples, in order, in seconds.

    `discarded` has a reason for each sample that does not count, "" for the others; empty when all count. `host_s` are
    wall times of single launches, if the timer is not the host's. Of the profiler, `event_s` are the times between
    events around the same launches, and `kernels_s` the summed durations of their kernels. `blocked` says whether the
    device was busy until each launch was queued (None if not applicable). `kernels` are the names of what one launch
    ran, if the timer sees them. `readings` are the telemetry, each with the index of its first sample.
    """

    times_s: tuple[float, ...] = ()
    discarded: tuple[str, ...] = ()
    host_s: tuple[float, ...] = ()
    event_s: tuple[float, ...] = ()
    kernels_s: tuple[float, ...] = ()
    blocked: bool | None = None
    kernels: tuple[str, ...] = ()
    readings: tuple[tuple[int, Reading], ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """A reason per sample, "" for those that count."""
        return self.discarded or ("",) * len(self.times_s)

    @property
    def counting(self) -> list[float]:
        """Times that were not discarded."""
        return [time for time, reason in zip(self.times_s, self.reasons, strict=True) if not reason]

    @property
    def settled(self) -> tuple[str, ...]:
        """Reasons as they are stored: a cell that would lose too many samples keeps them all.

        Impossible times are discarded whatever their number; those of a hot or busy device are all there is.
        """
        reasons = self.reasons
        if sum(map(bool, reasons)) <= MOST_DISCARDED * len(self.times_s):
            return reasons
        return tuple(why if time <= 0 else "" for why, time in zip(reasons, self.times_s, strict=True))

    @property
    def telemetry(self) -> tuple[dict[str, Any], ...]:
        """Rows of telemetry.csv, without the columns that identify the unit."""
        return tuple(
            {"batch": batch, "first": first, **asdict(reading), "slowdown": " ".join(reading.slowdown)}
            for batch, (first, reading) in enumerate(self.readings)
        )

    def extended(self, batch: "Samples", reading: Reading | None) -> "Samples":
        """Append a batch. A slowdown that the device reports during it counts against all its samples."""
        reasons, readings = batch.reasons, self.readings
        if reading is not None:
            readings += ((len(self.times_s), reading),)
            if bad := " ".join(word for word in reading.slowdown if word in INVALIDATING):
                reasons = tuple(reason or f"{bad} slowdown" for reason in reasons)
        if batch.blocked is False:
            reasons = tuple(reason or NOT_BLOCKED for reason in reasons)
        return Samples(
            self.times_s + batch.times_s,
            self.reasons + reasons,
            self.host_s + batch.host_s,
            self.event_s + batch.event_s,
            self.kernels_s + batch.kernels_s,
            self.blocked if batch.blocked is None else batch.blocked and self.blocked is not False,
            self.kernels or batch.kernels,
            readings,
        )


@dataclass(frozen=True, slots=True)
class Measurement(Samples):
    """The samples of one round, and how they were taken; `discarded` has one reason per sample."""

    launches_per_sample: int = 1
    stop_reason: str = ""
    disturbed: str = ""
    remark: str = ""
    elapsed_s: float = 0.0
