"""What a measurement is asked for: one value, made by the command line, by Python and from run.json.

Each field of `Request` declares its `Option`: the flags and help of the command line, the commands that have it, how a
value is read and written, whether run.json keeps it, and whether a call that resumes a run may give it anew.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

from . import values
from .errors import UsageError, quote, unknown_name
from .files.record import Whole
from .protocol import COLD_BY, MOST, TIMERS, TUNINGS
from .verdict import RETRIED

Axes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Kind:
    """How the values of an option are read (as typed, or as Python has them) and written (as run.json has them).

    An option that is `repeated` has a list of values; `empty` makes the value of one that is not given. `stored` is the
    type in run.json. What a command line accepts: one of `choices`, a number within `bounds`, a path.
    """

    read: Callable[[Any, str], Any]
    write: Callable[[Any], Any] = str
    repeated: bool = False
    empty: Callable[[], Any] = lambda: None
    stored: Any = str
    choices: tuple[str, ...] = ()
    bounds: tuple[int, int] | None = None
    is_path: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """How a field of `Request` is given. An argument has no flags.

    name      name of the field
    commands  those that have it
    stored    run.json keeps it, so that --resume repeats it
    anew      --resume takes another value without naming the suite again
    hidden    `--help` does not show it: a comparison sets it
    """

    flags: tuple[str, ...]
    metavar: str
    kind: Kind
    help: str
    commands: tuple[str, ...]
    name: str
    stored: bool = True
    anew: bool = False
    hidden: bool = False

    @property
    def flag(self) -> str:
        """Name of the option in a message."""
        return self.flags[-1].partition("/")[0] if self.flags else self.name.upper()

    def words(self, value: Any) -> list[str]:
        """Write a value as the words of a command line."""
        written = self.kind.write(value)
        if isinstance(written, bool):
            forms = self.flags[-1].split("/")
            return forms[:1] if written else forms[1:]
        each = written if self.kind.repeated else [written]
        return [word for one in each for word in (*self.flags[-1:], str(one))]


def _text(value: Any, flag: str) -> str:
    if not isinstance(value, str | Path):
        raise UsageError(f"{flag} {quote(value)}: give a text")
    return str(value)


def _path(value: Any, flag: str) -> Path:
    return Path(_text(value, flag))


def _resolved(path: Path) -> str:
    return str(path.resolve())


def _suite(name: str) -> str:
    return _resolved(Path(name)) if name.endswith(".toml") else name


def _names(value: Any, flag: str) -> tuple[str, ...]:
    return tuple(values.names(value)) if isinstance(value, str) else _many(_text, value, flag)


def _many(read: Callable[[Any, str], Any], value: Any, flag: str) -> tuple[Any, ...]:
    return tuple(read(one, flag) for one in values.listed(value, flag))


def _axes(axes: Axes) -> list[str]:
    return [f"{name}={values.sizes_text(sizes)}" for name, sizes in axes.items()]


def _flag(value: Any, flag: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{flag} {quote(value)}: give True or False")
    return value


def _several(one: Kind) -> Kind:
    def write(found: Iterable[Any]) -> list[Any]:
        return [one.write(value) for value in found]

    return replace(one, read=partial(_many, one.read), write=write, repeated=True, empty=tuple, stored=list[str])


def _whole(least: int, most: int) -> Kind:
    def read(value: Any, flag: str) -> int:
        number = int(value) if isinstance(value, str) and value.isdecimal() else values.whole(value)
        if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
            raise UsageError(f"{flag} {quote(value)}: give a whole number from {least} to {most}")
        return number

    return Kind(read, int, stored=Whole, bounds=(least, most))


def _choice(known: Iterable[str]) -> Kind:
    names = [str(name) for name in known]

    def read(value: Any, flag: str) -> str:
        if value not in names:
            raise UsageError(f"{flag} {quote(value)}: known: {', '.join(names)}")
        return str(value)

    return Kind(read, choices=tuple(names))


TEXT, PATH = Kind(_text), Kind(_path, _resolved, is_path=True)
NAMES = Kind(_names, ",".join, empty=tuple)
AXES = Kind(lambda value, flag: values.axes(value), _axes, repeated=True, empty=dict, stored=list[str])
SECONDS = Kind(values.seconds, lambda value: f"{values.plain(value)}s")
FRACTION = Kind(values.fraction, values.plain)
BYTES = Kind(values.size_bytes, values.size_text)
COUNT = _whole(1, MOST)
FLAG = Kind(_flag, bool, stored=bool)
SUITE = replace(TEXT, write=_suite)


_EACH, _SELECTING, _MEASURING = ("run", "tune", "compare"), ("run", "tune"), ("run", "compare")
_RUN, _TUNE = ("run",), ("tune",)


def _option(usage: str, kind: Kind, help: str = "", commands: tuple[str, ...] = _SELECTING, **more: Any) -> Any:
    """Return a field of `Request`: flags and metavar, what else its `Option` says, and None as what is not given."""
    words = usage.split()
    flags = tuple(word for word in words if word.startswith("-"))
    metavar = "".join(words[len(flags) :])
    return field(default=None, metadata={"option": partial(Option, flags, metavar, kind, help, commands, **more)})


_for_this_call = partial(_option, stored=False, anew=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is measured, how, on which devices, until when and where to. Times are seconds, sizes bytes.

    Values may be given as a command line has them ("20s", "1%", ["M=1,16"]) or as Python has (20.0, 0.01,
    {"M": [1, 16]}); they are kept as the latter. What is not given is None or empty: the suite decides, or a default.
    Raises UsageError that names the option for a value that it cannot have, and for options that exclude each other.
    """

    suite: str | None = _option("", SUITE)
    providers: tuple[str, ...] = _option("-p --provider NAME", _several(TEXT), "Measure only these; repeat it.", _EACH)
    dtype: tuple[str, ...] = _option("--dtype LIST", NAMES, "Activation types, such as bf16,fp16.", _EACH)
    axes: Axes = _option(
        "-a --axis AXIS=LIST", AXES, "Values of an axis, such as M=1,2,64; M=1..8 counts, M=1,2,4..64 doubles.", _EACH
    )
    caches: tuple[str, ...] = _option("--cache LIST", NAMES, "cold, warm or cold,warm.", _EACH)
    filter_expression: str | None = _option("--filter EXPR", TEXT, "Keep the cells for which this holds.", _EACH)
    device: str | None = _option(
        "--device NAME", TEXT, "cpu, cuda or cuda:N; the default is a GPU if there is one.", _EACH
    )
    llc: int | None = _option(
        "--llc SIZE",
        BYTES,
        "Last-level cache that a cold sample evicts, such as 256MiB, if it is not found right.",
        _EACH,
    )
    threads: int | None = _option(
        "--threads", COUNT, "CPU threads; the default is every core this process may use.", _EACH
    )
    timer: str | None = _option(
        "--timer", _choice(TIMERS), "How time is taken: profiler on GPUs, host on the CPU, by default.", _EACH
    )
    cold_by: str | None = _option(
        "--cold-by",
        _choice(COLD_BY),
        "What makes a sample cold: a flush of the caches, or rotation among copies of the operands.",
        _EACH,
    )
    timeout: float | None = _option(
        "--timeout TIME", SECONDS, "Kill a cell that hangs for so long, such as 120s.", _EACH
    )
    build_timeout: float | None = _option(
        "--build-timeout TIME",
        SECONDS,
        "The same while a provider is imported or prepared, when it may compile; the default is 10m.",
        _EACH,
    )
    max_time: float | None = _for_this_call(
        "--max-time TIME", SECONDS, "End the whole sweep cleanly after this, such as 9m; resume with --resume."
    )
    seed: int | None = _option(
        "--seed", _whole(0, (1 << 32) - 1), "Seed of the operands and of the order of the providers.", _EACH
    )
    files: tuple[Path, ...] = _option("--providers FILE", _several(PATH), "Add the kernels of this file.")
    resume: bool | None = _for_this_call(
        "--resume", FLAG, "Resume the run of -o; without SUITE, exactly as it was started."
    )
    jobs: str | None = _for_this_call(
        "--jobs local[:N]",
        TEXT,
        "Measure on N GPUs of this machine at a time (all: local), or N parts of the CPU. Needs the extra fleet.",
        _MEASURING,
    )
    address: str | None = _for_this_call(
        "--address auto|HOST:PORT",
        TEXT,
        "Measure on a cluster of Ray: that of this machine, or by the address of its head; see rooflens fleet.",
        _MEASURING,
    )
    on: tuple[str, ...] = _for_this_call(
        "--on ARCH[=N]",
        _several(TEXT),
        "Measure on this architecture, and on N of its devices at most: gfx950, sm90=2.",
        _MEASURING,
    )
    wait: float | None = _for_this_call(
        "--wait TIME", SECONDS, "Wait so long for a device; the default is 60s.", _MEASURING
    )
    baseline: str | None = _option(
        "--baseline B", TEXT, "Compare with this provider, of any role; default: the suite's baseline.", _RUN
    )
    challengers: tuple[str, ...] = _option(
        "--challenger A",
        _several(TEXT),
        "What the headline is about, of any role; repeat it. It is measured too, as the baseline is.",
        _RUN,
    )
    tuning: str | None = _option(
        "--tuning",
        _choice(TUNINGS),
        "Configurations: the providers' default, pinned to the table of --tuned, or searched anew (cold).",
        _RUN,
    )
    tuned: Path | None = _option(
        "--tuned TABLE", PATH, "A tuning.csv, or the folder of a rooflens tune; implies --tuning pinned.", _RUN
    )
    searches: int | None = _option(
        "--searches",
        COUNT,
        "Searches per cell, each in a separate process; two or more (default: 2) show how reliable a choice is.",
        _TUNE,
    )
    rounds: int | None = _option("--rounds", COUNT, "Measurement rounds; intervals take 2, and narrow with more.", _RUN)
    within: float | None = _for_this_call(
        "--within TIME",
        SECONDS,
        "Start and measure for this long, such as 60s: a round of every cell, a second, and more while time is left. "
        "--rounds is the most.",
        _RUN,
    )
    target_ci: float | None = _option(
        "--target-ci PERCENT", FRACTION, "Stop a round when the median is known to +- this, such as 1%.", _MEASURING
    )
    budget: float | None = _option("--budget TIME", SECONDS, "Most time per cell and round, such as 0.5s.", _MEASURING)
    scan: str | None = _option(
        "--scan AXIS=SIZES",
        TEXT,
        "Replace each shape by variants of N or K: N=2048..4096:64, N=4096~8x64 (8 steps to both sides), K=~4x128 "
        "(around its own). Configurations are held: those of the shape itself.",
        _RUN,
    )
    refine: str | None = _option(
        "--refine crossover[=A:B]",
        TEXT,
        "Then measure further M where challenger A stops beating incumbent B; the default are those of the suite.",
        _RUN,
    )
    refine_to: float | None = _option(
        "--refine-to PERCENT", FRACTION, "Refine until win and loss are so near in M; the default is 10%.", _RUN
    )
    refine_most: int | None = _option("--refine-most", COUNT, "Most further M of one shape; the default is 6.", _RUN)
    to: Path | None = _for_this_call(
        "-o --output RUN", PATH, "Folder of the results; the default is runs/SUITE-TIME, or tuned/SUITE-TIME for tune."
    )
    calibrate: bool | None = _option(
        "--calibrate/--no-calibrate",
        FLAG,
        "Measure the ceilings after the first problem and at the end, as by default: the roofline needs them.",
        _RUN,
        anew=True,
    )
    retry: tuple[str, ...] = _for_this_call(
        "--retry",
        _several(_choice(RETRIED)),
        "With --resume, measure again what ended so; repeat it. --timeout may be given anew.",
        _MEASURING,
    )
    arm: Path | None = _for_this_call("--arm", PATH, "What this may import: code_origin.", hidden=True)
    only: Path | None = _for_this_call("--only", PATH, "Cells to measure: harness.compare.replay.", _RUN, hidden=True)

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

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return what run.json keeps of a request. Keys that are unknown, of another version, are ignored."""
        return cls(**{name: value for name, value in stored.items() if name in options() and value not in (None, "")})

    @classmethod
    def of_words(cls, words: Iterable[str]) -> Self:
        """Read a command line: SUITE, and options that have a value."""
        by_flag = {flag: one for one in options().values() for flag in one.flags}
        given: dict[str, Any] = {}
        left = iter(words)
        for word in left:
            if word.startswith("-") and word not in by_flag:
                raise unknown_name("option", word, list(by_flag))
            name, value = (by_flag[word].name, next(left, "")) if word in by_flag else ("suite", word)
            given.setdefault(name, []).append(value)
        return cls(**{name: found if options()[name].kind.repeated else found[-1] for name, found in given.items()})

    @property
    def on_devices(self) -> bool:
        """Whether several devices measure it."""
        return bool(self.jobs or self.address)

    @property
    def given(self) -> dict[str, Any]:
        """What is given, by field."""
        stated = {name: getattr(self, name) for name in options()}
        return {name: value for name, value in stated.items() if value not in (None, (), {})}

    def stored(self) -> dict[str, Any]:
        """Return what run.json keeps, with full paths, so that a run can be resumed from any directory."""
        kept = [one for one in options().values() if one.stored]
        stated = {one.name: one.kind.write(getattr(self, one.name)) for one in kept if one.name in self.given}
        return {one.name: [] if one.kind.repeated else None for one in kept} | stated

    def words(self, names: Collection[str] | None = None) -> list[str]:
        """Write what is given (of the fields `names`) as options of a command line."""
        chosen = [name for name in self.given if names is None or name in names]
        return [word for name in chosen for word in options()[name].words(getattr(self, name))]

    @property
    def protocol(self) -> dict[str, Any]:
        """The fields of `Protocol` that it overrides."""
        named = {name: getattr(self, name) for name in ("rounds", "timer", "cold_by", "tuning", "seed", "target_ci")}
        times = {f"{name}_s": getattr(self, name) for name in ("budget", "timeout", "build_timeout")}
        return {name: value for name, value in (named | times).items() if value is not None}

    def refuse_changes(self, done: str, but: str = "") -> None:
        """Raise UsageError for options that would be ignored: without SUITE, --resume repeats those of the first call.

        `done` is what they change ("measured"); `but` names one that may.
        """
        for name in self.given:
            if name not in (*self._anew, but):
                raise refused_change(options()[name].flag, done)

    def repeating(self, stored: Mapping[str, Any], where: str) -> Self:
        """Return the request that the file `where` keeps, with what this call may give anew."""
        try:
            kept = self.read(stored)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
        return replace(kept, **{name: value for name, value in self.given.items() if name in self._anew})

    @property
    def _anew(self) -> set[str]:
        """Names of what a call that resumes may give; with --retry, failures may get more time."""
        return {one.name for one in options().values() if one.anew} | ({"timeout"} if self.retry else set())


@cache
def options() -> dict[str, Option]:
    """Return the options of `Request` by the names of its fields."""
    return {one.name: one.metadata["option"](name=one.name) for one in fields(Request)}


def refused_change(flag: str, done: str) -> UsageError:
    """Return the error for an option that changes what is `done`, where a call only resumes."""
    return UsageError(
        f"{flag} changes what is {done}, but --resume without SUITE continues exactly as it was started: "
        "omit it, or repeat SUITE and its options too"
    )


def stored_of(command: str) -> set[str]:
    """Return the names of the fields that a command has, and run.json keeps."""
    return {one.name for one in options().values() if one.stored and command in one.commands}
