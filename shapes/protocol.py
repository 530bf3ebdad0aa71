"""The measurement protocol: how long, how often and how exactly each cell is timed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from . import values
from .errors import UsageError, quote, unknown_name
from .files.record import Scalar
from .option import BYTES, COUNT, FRACTION, SECONDS, Kind, Option, choice, declared, whole
from .option import MOST as MOST

TIMERS = ("auto", "event", "graph", "profiler", "host")

COMPARED_ROUNDS = 8
"""Rounds of each version in a comparison."""

LIMITS = ("timeout_s", "build_timeout_s", "threads", "llc_bytes", "refine_to", "refine_most")
"""Settings that two runs may differ in: when something counts as hung; what is stored of the machine too; what is added
to the plan."""

_EACH, _MEASURING, _RUN = ("run", "tune", "compare"), ("run", "compare"), ("run",)
_LIMITED, _PROBED = (*_EACH, "bench", "isa"), (*_EACH, "calibrate")


def _setting(default: Any, kind: Kind, help: str, commands: tuple[str, ...] = _EACH, flags: str = "") -> Any:
    """Return a field of `Protocol`: its default, and what its option says. None: known once the run begins."""
    return field(default=default, metadata={"option": declared(flags, kind, help, commands, setting=True)})


@dataclass(frozen=True, slots=True)
class Protocol:
    """Settings of one run; a suite may set defaults, the command line overrides them.

    Their names are the same in a suite's table [protocol], in `--set`, in Python and in run.json, and so is what they
    may be: `Protocol(budget_s="100ms")` is `Protocol(budget_s=0.1)`.
    """

    rounds: int = _setting(
        3,
        COUNT,
        f"Rounds of every cell (compare: {COMPARED_ROUNDS}); intervals take 2, and narrow with more.",
        _MEASURING,
        "--rounds",
    )
    target_ci: float = _setting(
        0.01, FRACTION, "End a round when the 95 % interval of its median is within +- this, such as 1%.", _MEASURING
    )
    min_samples: int = _setting(50, whole(10, MOST), "Least samples of a round; fewer if they are slow.", _MEASURING)
    budget_s: float = _setting(1.0, SECONDS, "Most time per cell and round, such as 500ms.", _MEASURING)
    timeout_s: float = _setting(120.0, SECONDS, "Kill a cell that hangs for so long, such as 2m.", (*_EACH, "bench"))
    build_timeout_s: float = _setting(600.0, SECONDS, "The same of an import or a build, such as 5m.", _LIMITED)
    timer: str = _setting(
        "auto", choice(TIMERS), "How time is taken; auto: profiler or event on GPUs, host on the CPU.", _PROBED
    )
    cold_by: str = _setting(
        "auto",
        choice(("auto", "flush", "rotation")),
        "What makes a sample cold: a flush, or rotation among operands; auto: rotation for timer graph, else flush.",
    )
    tuning: str = _setting(
        "default", choice(("default", "pinned", "cold")), "Configurations; pinned: of --tuned, cold: searched.", _RUN
    )
    seed: int = _setting(0, whole(0, (1 << 32) - 1), "Seed of the operands and of the order of the providers.")
    threads: int | None = _setting(
        None, COUNT, "CPU threads; the default is every core this process may use.", (*_PROBED, "isa")
    )
    llc_bytes: int | None = _setting(
        None, BYTES, "Last-level cache that a cold sample evicts, if it is not detected correctly.", _PROBED
    )
    refine_to: float = _setting(0.1, FRACTION, "--refine ends where win and loss are so near in M, such as 5%.", _RUN)
    refine_most: int = _setting(6, COUNT, "Most further M of one shape that --refine adds.", _RUN)

    def __post_init__(self) -> None:
        for name, one in settings().items():
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, one.kind.read(value, f"protocol: {name}"))
        if self.timeout_s <= self.budget_s:
            raise UsageError(f"protocol: timeout_s={self.timeout_s:g} must be more than budget_s={self.budget_s:g}")


@cache
def settings() -> dict[str, Option]:
    """Return the settings of `Protocol` by name."""
    return {one.name: one.metadata["option"](name=one.name) for one in fields(Protocol)}


def settings_of(command: str) -> dict[str, Option]:
    """Return the settings that a command has, by name."""
    return {name: one for name, one in settings().items() if command in one.commands}


def _read(given: object, flag: str) -> dict[str, Any]:
    """Read {"timer": "graph", "seed": 1}, "timer=graph,seed=1", or several of the latter."""
    if not isinstance(given, Mapping):
        words = [word.partition("=") for text in values.listed(given, flag) for word in values.names(str(text))]
        for name, equals, _ in words:
            if not equals:
                raise UsageError(f"{flag} {quote(name)}: write KEY=VALUE, such as timer=graph")
        given = {name.strip(): value.strip() for name, _, value in words}
    known = settings()
    for name in given:
        if name not in known:
            raise unknown_name(f"key of {flag}", str(name), list(known))
    return {name: one.kind.read(given[name], one.flag) for name, one in known.items() if given.get(name) is not None}


def _write(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings()[name].kind.write(value) for name, value in given.items()}


SETTINGS = Kind(_read, _write, repeated=True, empty=dict, stored=dict[str, Scalar])
"""Some settings, by name."""
