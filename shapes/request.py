"""What a measurement is asked for: one value, made by the command line, by Python and from run.json.

Each field of `Request` declares its `Option`: the flags and help of the command line, the commands that have it, how a
value is read and written, whether run.json keeps it, and whether a call that resumes a run may give it anew.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

from .architectures import parse_devices
from .errors import UsageError, quote
from .option import AXES, COUNT, FLAG, NAMES, PATH, SECONDS, SPAN, SUITE, TEXT, Kind, Option, choice, declared, several
from .protocol import SETTINGS, Protocol, settings, settings_of
from .verdict import RETRIED

_EACH, _SELECTING, _MEASURING = ("run", "tune", "compare"), ("run", "tune"), ("run", "compare")
_PLANNING, _FILES = (*_EACH, "isa"), (*_EACH, "bench")
_RUN, _COMPARE = ("run",), ("compare",)


def _option(usage: str, kind: Kind, help: str = "", commands: tuple[str, ...] = _EACH, **more: Any) -> Any:
    """Return a field of `Request`: flags and metavar, what else its `Option` says, and None as what is not given."""
    return field(default=None, metadata={"option": declared(usage, kind, help, commands, **more)})


_for_this_call = partial(_option, stored=False, anew=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is measured, how, on which devices, until when and where to. Times are seconds, sizes bytes.

    Values may be given as a command line has them ("20s", "1%", ["M=1,16"]) or as Python has (20.0, 0.01,
    {"M": [1, 16]}); they are kept as the latter. What is not given is None or empty: the suite decides, or a default.
    Raises UsageError that names the option for a value that it cannot have, and for options that exclude each other.
    """

    suite: str | None = _option("", SUITE, "", (*_SELECTING, "isa"))
    providers: tuple[str, ...] = _option(
        "-p --provider NAME", several(TEXT), "Only these; repeat it.", (*_PLANNING, "roofline", "history", "camping")
    )
    dtype: tuple[str, ...] = _option("--dtype LIST", NAMES, "Activation types, such as bf16,fp16.", _PLANNING)
    axes: dict[str, tuple[int, ...]] = _option(
        "-a --axis AXIS=LIST", AXES, "Sizes, such as M=1,2,64; M=1..8 counts, M=1,2,4..64 doubles.", _PLANNING
    )
    caches: tuple[str, ...] = _option("--cache LIST", NAMES, "cold, warm or cold,warm.", _FILES)
    filter_expression: str | None = _option(
        "--filter EXPR", TEXT, "Keep the cells for which this holds.", (*_PLANNING, "history")
    )
    device: str | None = _option(
        "--device NAME", TEXT, "cpu, cuda or cuda:N; default: a GPU if any.", (*_FILES, "calibrate", "doctor")
    )
    protocol: dict[str, Any] = _option(
        "--set KEY=VALUE",
        SETTINGS,
        "Change a setting, such as timer=graph,seed=1; repeat it. rooflens run --help explains each.",
        (*_PLANNING, "bench", "calibrate"),
    )
    max_time: float | None = _for_this_call(
        "--max-time", SECONDS, "End the whole sweep cleanly after this, such as 9m; resume with --resume."
    )
    files: tuple[Path, ...] = _option("--providers FILE", several(PATH), "Add the kernels of this file.", _PLANNING)
    resume: bool | None = _for_this_call(
        "--resume", FLAG, "Resume what is in -o; without SUITE, exactly as it was started."
    )
    jobs: str | None = _for_this_call(
        "--jobs local[:N]", TEXT, "Measure on N GPUs here (all: local), or N parts of the CPU.", _MEASURING
    )
    address: str | None = _for_this_call(
        "--address auto|HOST:PORT", TEXT, "Measure on a cluster of Ray; see rooflens fleet.", _MEASURING
    )
    on: str | None = _for_this_call(
        "--on ARCH[=N]", TEXT, "Only this architecture, and at most N of its devices: gfx950, sm90=2.", _MEASURING
    )
    wait: float | None = _for_this_call("--wait", SECONDS, "Wait so long for a device; the default is 60s.", _MEASURING)
    baseline: str | None = _option(
        *("--baseline B", TEXT, "Compare with this provider, of any role; default: the suite's baseline."),
        ("run", "bench"),
    )
    challengers: tuple[str, ...] = _option(
        "--challenger A", several(TEXT), "What the headline is about, of any role; repeat it.", _RUN
    )
    tuned: Path | None = _option(
        "--tuned TABLE", PATH, "A tuning.csv, or the folder of a rooflens tune; implies tuning=pinned.", _RUN
    )
    searches: int | None = _option(
        "--searches",
        COUNT,
        "Searches per cell, each in a process; 2 (the default) or more show drift.",
        ("tune",),
    )
    within: float | None = _for_this_call(
        "--within", SECONDS, "Start and measure for this long, such as 60s, in up to --rounds rounds.", ("run", "bench")
    )
    scan: str | None = _option(
        "--scan AXIS=SIZES",
        TEXT,
        "Replace each shape by variants of N or K: N=2048..4096:64, N=4096~8x64 (8 steps to both sides), K=~4x128 "
        "(around its own). Every variant runs the configuration of the shape itself.",
        _RUN,
    )
    refine: str | None = _option(
        "--refine crossover[=A:B]", TEXT, "Then measure further M where challenger A stops beating incumbent B.", _RUN
    )
    to: Path | None = _for_this_call(
        "-o --output RUN", PATH, "Folder of the results; the default is a new one in runs/, of tune in tuned/."
    )
    calibrate: bool | None = _option(
        "--calibrate/--no-calibrate", FLAG, "Measure the ceilings, as by default, for the roofline.", _RUN, anew=True
    )
    retry: tuple[str, ...] = _for_this_call(
        "--retry", several(choice(RETRIED)), "With --resume, measure again what ended so; repeat it.", _MEASURING
    )
    versions: tuple[str, ...] = _option(
        "--git BASE..HEAD", SPAN, "Measure two commits in turn, and compare them.", _COMPARE
    )
    repo: Path | None = _option(
        "--repo DIR", PATH, "The repository of your kernels; default: the working directory.", _COMPARE
    )
    setup: str | None = _option(
        "--setup COMMAND", TEXT, 'Run this once per version in its environment: "pip install -e ."', _COMPARE
    )
    null_arm: bool | None = _option(
        "--null-arm", FLAG, "Measure a second copy of BASE too: what the same code looks like.", _COMPARE
    )
    tune: bool | None = _option(
        "--tune",
        FLAG,
        "Search configurations first: base's are run in both versions; head's own, searched three times, beside them.",
        _COMPARE,
    )

    def __post_init__(self) -> None:
        for one in options().values():
            value = getattr(self, one.name)
            object.__setattr__(self, one.name, one.kind.empty() if value is None else one.kind.read(value, one.flag))
        if self.retry and not self.resume:
            raise UsageError("--retry measures again what failed in an earlier call: add -o and --resume, or omit it")
        if self.on and not self.on_devices:
            raise UsageError("--on selects an architecture of a cluster: add --address, or --jobs")
        if self.within and self.max_time:
            raise UsageError("--within ends the sweep by itself: omit --max-time")
        if self.within and self.on_devices:
            raise UsageError("--within is for one device: omit --jobs and --address, or use --max-time instead")
        if self.scan and self.on_devices:
            raise UsageError("--scan compares neighbouring sizes, which only one device can: omit --jobs and --address")
        if self.jobs and self.address:
            raise UsageError("--jobs measures on this machine, --address on a cluster of Ray: omit one of them")
        if self.jobs and not re.fullmatch(r"local(:[1-9]\d*)?", self.jobs):
            raise UsageError(
                f"--jobs {quote(self.jobs)}: write local for all devices of this machine, local:4 for four"
            )
        parse_devices(self.on or "", "--on")

    @classmethod
    def for_command(cls, command: str, given: Mapping[str, Any]) -> Self:
        """Return what a command is asked for: fields of the request, and settings, by name.

        Raises UsageError for a setting that the command does not have, and for a device beside several.
        """
        known = settings_of(command)
        for name in SETTINGS.read(given.get("protocol") or {}, "--set").keys() - known:
            raise UsageError(f"--set {name}: rooflens {command} does not use it, but {', '.join(known)}")
        request = cls(**_with_settings(given))
        if request.address and (request.device or "auto") != "auto":
            raise UsageError("--device is of this machine: with --address, choose an architecture with --on")
        if request.jobs and ":" in (request.device or ""):
            raise UsageError(f"--device {request.device} is one device: omit it, or --jobs")
        return request

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return what run.json keeps of a request. Keys that are unknown, of another version, are ignored."""
        named = {FORMER.get(name, name): value for name, value in stored.items() if value not in (None, "")}
        return cls(**_with_settings({name: named[name] for name in (options() | settings()).keys() & named}))

    @property
    def on_devices(self) -> bool:
        """Whether several devices measure it."""
        return bool(self.jobs or self.address)

    @property
    def rounds(self) -> int | None:
        """Rounds of every cell, where they are given."""
        found: int | None = self.protocol.get("rounds")
        return found

    def over(self, protocol: Protocol) -> Protocol:
        """Return a protocol with the settings that are given."""
        return replace(protocol, **self.protocol)

    def deadline(self, began: float) -> float | None:
        """Return the (monotonic) time at which it ends, where it `began`; None without --within and --max-time."""
        lasts_s = self.within or self.max_time
        return began + lasts_s if lasts_s else None

    @property
    def given(self) -> dict[str, Any]:
        """What is given, by field."""
        stated = {name: getattr(self, name) for name in options()}
        return {name: value for name, value in stated.items() if value not in (None, (), {})}

    @property
    def _stated(self) -> dict[str, Any]:
        """What is given, with each setting by its own name."""
        return {name: value for name, value in self.given.items() if name != "protocol"} | self.protocol

    def with_settings(self, **settings: Any) -> Self:
        """Return it with other settings; one that is None is not given."""
        return replace(self, protocol=self.protocol | settings)

    def of(self, command: str) -> Self:
        """Return what it says of the options and settings that a command has."""
        stated = self._stated.items()
        return type(self)(
            **_with_settings({name: value for name, value in stated if command in declared_options()[name].commands})
        )

    def stored(self) -> dict[str, Any]:
        """Return what run.json keeps, so that a run can be resumed: as JSON, with full paths."""
        written = {name: options()[name].kind.write(value) for name, value in self.given.items()}
        kept = {one.name: one.kind for one in options().values() if one.stored}
        return {name: kind.write(kind.empty()) if kind.repeated else None for name, kind in kept.items()} | {
            name: value for name, value in written.items() if name in kept
        }

    def words(self, names: Collection[str] | None = None) -> list[str]:
        """Write what is given (of these fields and settings; `protocol` is all of them) as words of a command line."""
        known = self._stated.keys() if names is None else {*names, *(self.protocol if "protocol" in names else ())}
        chosen = {name: value for name, value in self._stated.items() if name in known}
        return [word for name, value in chosen.items() for word in declared_options()[name].words(value)]

    def refuse_changes(self, done: str, but: str = "") -> None:
        """Raise UsageError for options that would be ignored: without SUITE, --resume repeats those of the first call.

        `done` is what they change ("measured"); `but` names one that may.
        """
        for name in self._stated:
            if name not in (*self._anew, but):
                raise UsageError(
                    f"{declared_options()[name].flag} changes what is {done}, but --resume without SUITE continues "
                    "exactly as it was started: omit it, or repeat SUITE and its options too"
                )

    def repeating(self, stored: Mapping[str, Any], where: str) -> Self:
        """Return the request that the file `where` keeps, with what this call may give anew."""
        try:
            kept = self.read(stored)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
        anew = {name: value for name, value in self._stated.items() if name in self._anew}
        return replace(kept, **_with_settings({"protocol": kept.protocol} | anew))

    @property
    def _anew(self) -> set[str]:
        """Names of what a call that resumes may give; with --retry, failures may get more time."""
        return {one.name for one in options().values() if one.anew} | ({"timeout_s"} if self.retry else set())


FORMER = {"llc": "llc_bytes", "budget": "budget_s", "timeout": "timeout_s", "build_timeout": "build_timeout_s"}
"""Settings by the names that earlier versions had for them."""


@cache
def options() -> dict[str, Option]:
    """Return the options of `Request` by the names of its fields."""
    return {one.name: one.metadata["option"](name=one.name) for one in fields(Request)}


@cache
def declared_options() -> dict[str, Option]:
    """Return all of them by name: the fields of `Request`, and in place of `protocol` the settings of `Protocol`."""
    return {name: one for name, one in options().items() if name != "protocol"} | settings()


def _with_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a request for values by name: settings become a part of `protocol`, and win over it."""
    named = {name: value for name, value in given.items() if name in settings()}
    others = {name: value for name, value in given.items() if name not in named}
    return others | {"protocol": SETTINGS.read(given.get("protocol") or {}, "--set") | SETTINGS.read(named, "")}
