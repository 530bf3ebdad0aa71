"""The measurement protocol: how long, how often and how exactly each cell is timed."""

from dataclasses import dataclass

from .errors import UsageError, quote

TIMERS = ("auto", "event", "graph", "profiler", "host")

MOST = 1_000_000
"""What rounds, samples and seconds may be at most; more is a slip of the keyboard."""

LEAST_SAMPLES = 10
"""With fewer, the interval of the median is the range of the samples."""

COMPARED_ROUNDS = 8
"""Rounds of each version in a comparison."""

COLD_BY = ("auto", "flush", "rotation")

LIMITS = ("timeout_s", "build_timeout_s")
"""Settings that decide when something counts as hung, and nothing about the times of what does not."""

TUNINGS = ("default", "pinned", "cold")


@dataclass(frozen=True, slots=True)
class Protocol:
    """Settings of one run; a suite may set defaults, the command line overrides them.

    rounds       measurement rounds per cell; providers of one problem alternate within a round
    target_ci    stop a round when the 95 % interval of its median is within +- this fraction of the median
    min_samples  least samples per round before it may stop early; a slow launch gets 10 or, in the worst case, 3
    budget_s     wall seconds per (cell, round) after which sampling stops
    timeout_s    wall seconds after which a cell counts as hung and its worker is killed; more than budget_s
    build_timeout_s
                 the same while a provider is imported or prepared, when it may compile
    timer        "profiler", "event", "graph" or "host"; "auto": profiler on GPUs that record kernels, event on others,
                 host on the CPU
    cold_by      what makes a sample cold: "flush" (read more than the last-level cache holds before it), "rotation"
                 (among copies of the operands) or "auto" (rotation for the graph timer, else flush)
    tuning       where configurations come from: "default" (no search), "pinned" (a stored table) or "cold" (a search)
    seed         seed of the operands and of the order of the providers within a round
    """

    rounds: int = 3
    target_ci: float = 0.01
    min_samples: int = 50
    budget_s: float = 1.0
    timeout_s: float = 120.0
    build_timeout_s: float = 600.0
    timer: str = "auto"
    cold_by: str = "auto"
    tuning: str = "default"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rounds", "min_samples", "target_ci", "budget_s", "timeout_s", "build_timeout_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
                raise UsageError(f"protocol: {name}={quote(value)} must be a positive number, at most {MOST:,}")
        for name in ("rounds", "min_samples", "seed"):
            if not isinstance(getattr(self, name), int):
                raise UsageError(f"protocol: {name}={quote(getattr(self, name))} must be a whole number")
        if self.min_samples < LEAST_SAMPLES:
            raise UsageError(f"protocol: min_samples={quote(self.min_samples)} must be {LEAST_SAMPLES} at least")
        if not 0 <= self.seed < 1 << 32:
            raise UsageError(f"protocol: seed={quote(self.seed)} must be from 0 to 2^32 - 1")
        if self.timeout_s <= self.budget_s:
            raise UsageError(
                f"protocol: timeout_s={self.timeout_s:g} must be more than budget_s={self.budget_s:g}, "
                "or every round that takes its whole budget counts as hung"
            )
        for name, known in (("timer", TIMERS), ("cold_by", COLD_BY), ("tuning", TUNINGS)):
            if getattr(self, name) not in known:
                raise UsageError(f"protocol: unknown {name} {quote(getattr(self, name))}: known: {', '.join(known)}")
