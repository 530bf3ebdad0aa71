"""Timings that tests compare with: one JSON file per test in FOLDER/NAME, written by `pytest --rooflens-save NAME`.

Keys of a file: `version`, `node` (the test), `saved_at` (UTC), `device` and `software` of the session, `canary` (times
of the fixed GEMM and copy, s), and `timings`: by name `timer`, `cache`, and `rounds`, the samples (s) of each.
"""

import hashlib
import json
import math
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

from ..analysis.comparison.decide import Word, vetoed
from ..harness.machine.software import version
from ..harness.telemetry.clock import CLOCK
from ..harness.worker.agreement import AGREES
from ..reports import formatting as fmt
from ..reports.write import write_bytes
from ..shapes.device import Device
from ..shapes.errors import UsageError
from ..shapes.files.json_file import read_object
from ..shapes.files.record import Check, WrongTypeError, from_json, is_number
from .bench import one_after_the_other
from .times import Change, Timing

VERSION = 1

PACKAGES = ("rooflens", "torch", "triton")

_DEVICE = ("name", "arch", "compute_units")
"""What must be alike for times to be comparable."""

Seconds = Annotated[float, Check("a time in seconds", lambda value: is_number(value) and value > 0)]

_LONGEST = 80
"""Characters of the name of a test in the name of its file."""


@dataclass(frozen=True, slots=True)
class StoredTiming:
    """Samples (s) of every round of one call, and how they were taken."""

    timer: str
    cache: str
    rounds: tuple[tuple[Seconds, ...], ...]

    @classmethod
    def of(cls, timing: Timing) -> "StoredTiming":
        """Take what is stored of a timing."""
        return cls(timing.timer, timing.cache, timing.rounds_s)

    def __post_init__(self) -> None:
        if not self.rounds or not all(self.rounds):
            raise ValueError("a round without samples")


@dataclass(frozen=True, slots=True)
class Baseline:
    """The timings of one test in one session."""

    node: str
    device: dict[str, Any]
    software: dict[str, str]
    canary: dict[str, Seconds]
    timings: dict[str, StoredTiming]
    saved_at: str = field(default_factory=lambda: CLOCK.now("seconds"))

    def write(self, path: Path) -> None:
        """Write the file; raise RooflensError when that fails."""
        write_bytes(path, (json.dumps({"version": VERSION} | asdict(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file; FileNotFoundError where there is none, UsageError for one that is damaged."""
        content = read_object(path)
        if content.pop("version", None) != VERSION:
            raise UsageError(f"{path}: not a baseline of this version of rooflens: save it again")
        try:
            found: Self = from_json(cls, content)
        except (WrongTypeError, ValueError) as error:
            raise UsageError(f"{path}: {error}; save it again, or restore a copy") from None
        return found


def path_of(folder: Path, name: str, node: str) -> Path:
    """Return the file of a test: readable, and its own. Raises UsageError for a name that is no folder's."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise UsageError(f"baseline {name!r}: use letters, digits, and . _ - within")
    readable = re.sub(r"[^\w.-]+", "-", node).strip("-")[-_LONGEST:]
    return folder / name / f"{readable}-{hashlib.sha256(node.encode()).hexdigest()[:8]}.json"


def describe(device: Device) -> dict[str, Any]:
    """Return what is stored of a device."""
    return {name: getattr(device, name) for name in (*_DEVICE, "uuid")}


def software() -> dict[str, str]:
    """Return the versions that are stored."""
    return {"python": platform.python_version()} | {name: found for name in PACKAGES if (found := version(name))}


@dataclass(frozen=True, slots=True)
class BaselineVerdict:
    """What a timing is against a stored one. False where it is verified to be slower.

    `doubt` says why nothing is decided, whatever the times are; "" where they decide. `updated` are packages that had
    other versions then.
    """

    name: str
    baseline: str
    change: Change
    doubt: str
    updated: tuple[str, ...] = ()

    @property
    def undecided(self) -> bool:
        """True where it is neither verified to be slower nor known not to be."""
        return bool(self.doubt) or self.change.verdict is Word.INCONCLUSIVE

    def __bool__(self) -> bool:
        return self.undecided or self.change.verdict is not Word.SLOWER

    def __repr__(self) -> str:
        low, high = (1 / self.change.interval[1], 1 / self.change.interval[0]) if self.change.interval else (None, None)
        known = f" {fmt.change_interval(low, high)}"
        text = f"{self.name} against {self.baseline}: time {fmt.change(1 / self.change.ratio, low, high)}{known}"
        if self.updated:
            text += f", with other versions ({', '.join(self.updated)})"
        if self.doubt:
            return f"{text}, but {self.doubt}"
        if self.undecided:
            return f"{text}, smallest detectable change {self.change.row()['detectable'] or 'unknown'}"
        return f"{text}, {self.change.verdict} with a margin of {fmt.share(self.change.margin)}"


def judge(
    stored: Baseline, name: str, timing: Timing, device: Device, canary: Mapping[str, float], margin: float
) -> BaselineVerdict:
    """Compare a timing with that of the baseline `name`.

    The sessions were not measured in turn, so that drift is in the difference: a change has to exceed `margin` (0.15 is
    15 %) and the margin of `rooflens compare` for such runs, and nothing is decided that a change of the device itself
    could explain, by the canary. Raises UsageError for a stored timing of another device, or taken in another way.
    """
    if not 0 <= margin < math.inf:
        raise UsageError(f"margin={margin}: a fraction of the time, such as 0.05, was expected")
    for key in _DEVICE:
        if stored.device.get(key) != getattr(device, key):
            raise UsageError(
                f"the baseline {name} is of another device ({_device(stored.device)}; this is "
                f"{_device(describe(device))}): save one here, under a name of its own"
            )
    before = stored.timings[timing.name]
    for what, was, found in (("timer", before.timer, timing.timer), ("cache", before.cache, timing.cache)):
        if was != found:
            raise UsageError(f"{timing.name} of the baseline {name} has {what} {was}, this one {found}: save it again")
    change = one_after_the_other(before.rounds, timing.rounds_s, margin)
    doubt = _drift(stored.canary, canary, change, not device.is_gpu)
    if timing.impossible:
        doubt = "its time is shorter than the device allows"
    elif change.verdict is Word.FASTER and not timing.output.startswith(AGREES):
        doubt = (
            doubt
            or f"its output is {timing.output.partition(':')[0]}: pass reference=, a function that computes the same"
        )
    versions = software()
    updated = (
        f"{package} {stored.software.get(package, 'none')} then, {versions.get(package, 'none')} now"
        for package in dict.fromkeys((*stored.software, *versions))
        if stored.software.get(package) != versions.get(package)
    )
    return BaselineVerdict(timing.name, name, change, doubt, tuple(updated))


def _drift(before: Mapping[str, float], now: Mapping[str, float], change: Change, is_cpu: bool) -> str:
    """Say how the device changed, where that could explain the verdict."""
    moved = {name.removesuffix("_s"): now[name] / before[name] for name in before if name in now}
    low, high = (-math.log(end) for end in reversed(change.interval or (1.0, 1.0)))
    case = {"word": change.verdict, "low": low, "high": high, "margin": math.log1p(change.margin)}
    if not vetoed(case, [*map(math.log, moved.values())], is_cpu):
        return ""
    parts = ", ".join(f"{name} {fmt.change(one)}" for name, one in moved.items())
    return f"the device itself changed (time of the canary: {parts})"


def _device(stored: Mapping[str, Any]) -> str:
    return f"{stored.get('name')}, {stored.get('arch')}, {stored.get('compute_units')} units"
