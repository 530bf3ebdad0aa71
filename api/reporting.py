"""`report`: the report of a run, or of a run against another, in files whose endings are their formats."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..reports.exports.formats import EXPORTS
from ..reports.render.formats import FORMATS
from ..shapes.errors import UsageError, quote, unknown_name
from ..shapes.run_folder.manifest import COMPARISON
from ..shapes.values import listed
from .run_folders import find_run
from .selection import unheard

if TYPE_CHECKING:
    from ..analysis.frames.load import RunData
    from ..reports.model import Report
    from .stored_run import Run

SIDE_BY_SIDE = "side-by-side"
"""Preset of several runs."""

ENDINGS = {form.ending: name for name, form in (FORMATS | EXPORTS).items() if form.ending}
"""Format of a file that names none."""


def report(run: "Run | Path | str", *files: Path | str, ascii_only: bool = False, **question: Any) -> list[Path]:
    """Write the report of a run as `rooflens report` does, and return the files.

    run         a loaded run, the folder of a run or of a comparison, the name of a run under ./runs, or "latest"
    files       their endings are their formats (.html, .md, .txt, .json, .parquet); "FORMAT=FILE" names one ("aiter=",
                "comment=", "digest="). Without any, the page and the markdown go into the folder of the run
    ascii_only  signs in ASCII, in all but the page
    question    what is asked of the run, the fields of `Reported`: preset, against, baseline, challengers, ...

    Everything is rendered before anything is written. Raises UsageError for what cannot be reported so.
    """
    if unknown := question.keys() - Reported.__dataclass_fields__:
        raise unknown_name("argument", min(unknown), [*Reported.__dataclass_fields__])
    reported = Reported(run=run, **question)
    return reported.write([output(file) for file in files] or reported.default_files, ascii_only)


def output(file: Path | str) -> tuple[str, Path]:
    """Return the format of FILE, by its ending, or of FORMAT=FILE, and the file."""
    name, _, path = str(file).partition("=")
    if name in FORMATS | EXPORTS and path:
        return name, Path(path)
    if form := ENDINGS.get(Path(str(file)).suffix.lower()):
        return form, Path(file)
    raise UsageError(f"{file}: end it with {', '.join(ENDINGS)}, or write FORMAT=FILE ({', '.join(FORMATS | EXPORTS)})")


@dataclass(kw_only=True)
class Reported:
    """What is reported on, a run, a run against another or the folder of a comparison, and what is asked of it.

    preset       of `rooflens report`: what the report is about
    against      the run of a base: the report says what changed from it
    beside       other runs, such as those of other devices: the report has a column for each
    baseline     provider to compare with in place of the run's
    challengers  providers to look at
    serving      tables of NVIDIA AIConfigurator to show beside the run
    arithmetic   of two versions: with arithmetic means of rates
    tell         is told what is odd about "latest"

    Raises UsageError for what cannot be asked.
    """

    run: "Run | Path | str"
    against: "Run | Path | str | None" = None
    beside: Iterable["Run | Path | str"] = ()
    preset: str = ""
    baseline: str = ""
    challengers: Iterable[str] = ()
    serving: Iterable[Path | str] = ()
    arithmetic: bool = False
    tell: Callable[[str], object] = unheard

    def __post_init__(self) -> None:
        self.challengers = tuple(map(str, listed(self.challengers, "challengers")))
        self.serving = tuple(map(Path, listed(self.serving, "serving")))
        self.beside = tuple(listed(self.beside, "beside"))
        for run in (self.run, *self.beside, *([] if self.against is None else [self.against])):
            if not isinstance(run, str | Path) and not hasattr(run, "folder"):
                raise UsageError(f"{quote(run)} is no run: give one that is loaded, its folder or its name")
        if self.beside and self.preset not in ("", SIDE_BY_SIDE):
            raise UsageError(f"--preset {self.preset} is not of several runs: omit it, or name one run and its BASE")
        if self.preset == SIDE_BY_SIDE and not self.beside:
            raise UsageError(f"--preset {SIDE_BY_SIDE} needs two runs or more")
        if self.beside and (self.against is not None or self.serving):
            raise UsageError("several runs are put side by side: leave out the base and --serving")
        named = {"--baseline": self.baseline, "--challenger": self.challengers, "--serving": self.serving}
        if self.of_two and (given := [option for option, value in named.items() if value]):
            raise UsageError(f"{given[0]} is for the report of one run: two versions are compared provider by provider")
        if self.is_comparison and self.against is not None:
            raise UsageError(f"{self.run} is a comparison and holds both versions: leave {self.against} out")
        if self.arithmetic and not self.of_two:
            raise UsageError("--arithmetic is for the report of two versions: name the BASE too")

    @property
    def is_comparison(self) -> bool:
        """True for the folder of a comparison."""
        return isinstance(self.run, str | Path) and (Path(self.run) / COMPARISON).is_file()

    @property
    def of_two(self) -> bool:
        """True where two versions are compared."""
        return self.is_comparison or self.against is not None

    @cached_property
    def folder(self) -> Path:
        """Folder of the run or the comparison."""
        return Path(str(self.run)) if self.is_comparison else self._folder_of(self.run)

    def _folder_of(self, run: "Run | Path | str") -> Path:
        return find_run(str(run), tell=self.tell) if isinstance(run, str | Path) else run.folder

    @property
    def default_files(self) -> list[tuple[str, Path]]:
        """Format and path of the files that a folder gets by default: report.html and report.md, or of a preset."""
        kind = self.preset or (SIDE_BY_SIDE if self.beside else "branch" if self.of_two else "full")
        suffix = "" if kind == "full" else f"-{kind}"
        return [
            (name, self.folder / f"report{suffix}{form.ending}") for name, form in FORMATS.items() if form.by_itself
        ]

    @cached_property
    def data(self) -> "RunData":
        """The one run."""
        from ..analysis.frames.load import load_run

        return load_run(self.folder) if isinstance(self.run, str | Path) else self.run.data

    @cached_property
    def report(self) -> "Report":
        """Load and analyse it, and lay out the report."""
        from ..analysis.frames.load import load_run
        from ..reports.build import COMPARED, DEFAULT, build_comparison, build_report, build_side_by_side
        from .compare.stored import stored_comparison, stored_runs

        if self.beside:
            others = [load_run(self._folder_of(run)) for run in self.beside]
            return build_side_by_side([self.data, *others], tuple(self.challengers), self.baseline)
        if not self.of_two:
            serving = [Path(file) for file in self.serving]
            return build_report(self.data, self.preset or DEFAULT, tuple(self.challengers), self.baseline, serving)
        if self.against is None:
            result = stored_comparison(self.folder)
        else:
            result = stored_runs(self._folder_of(self.against), self.folder)
        return build_comparison(result, self.preset or COMPARED, self.arithmetic)

    def exported(self, form: str) -> bytes:
        """Return the measured cells of the one run in the format of another tool."""
        from ..analysis.run.pipeline import analyze

        if self.of_two or self.beside:
            raise UsageError(f"{form} is of one run: name one alone")
        return EXPORTS[form].content(analyze(self.data))

    def write(self, files: Sequence[tuple[str, Path]], ascii_only: bool = False) -> list[Path]:
        """Write files of formats, the exports first; everything is rendered before anything is written."""
        from ..reports.write import write_bytes

        named: dict[Path, str] = {}
        for name, path in files:
            if (other := named.setdefault(path.resolve(), name)) != name:
                raise UsageError(f"{other} and {name} would both be written to {path}: give each its own file")
        contents = {path: self.exported(name) for name, path in files if name in EXPORTS}
        for name, path in files:
            if name in FORMATS:
                contents |= FORMATS[name].files(self.report, path, ascii_only)
        for path, content in contents.items():
            write_bytes(path, content)
        return list(contents)
