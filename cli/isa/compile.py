"""From a suite to the rows of isa.csv: what is compiled, with progress on stderr. Imports torch and Triton."""

import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from ...kernels import registry
from ...kernels.aot import Build
from ...kernels.isa.account import account
from ...kernels.isa.compile_all import Cache, compile_all
from ...kernels.isa.scan import Asked, Entry, compiles, scan, specialization
from ...reports.render.visible import visible
from ...shapes.errors import Interrupted, UsageError
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Pass
from ...shapes.verdict import Verdict
from ..run.selection import completed, plan_of, suite_of
from ..shared.progress import LINE_EVERY_S
from ..shared.terminal import console


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """What to compile, as typed, and how.

    passes  in place of the suite's, where there are any; cache  None: the folder of the user
    assembly  folder that texts are written to
    """

    suite: str
    arches: tuple[str, ...]
    providers: tuple[str, ...]
    dtype: str | None
    passes: tuple[Pass, ...]
    axes: tuple[str, ...]
    filter_expression: str
    files: tuple[Path, ...]
    defaults_only: bool
    timeout_s: float
    jobs: int
    cache: Path | None
    assembly: Path | None


def compile_suite(request: CompileRequest) -> list[dict[str, Any]]:
    """Return the rows of isa.csv, by architecture, then in the order of the suite; the same order for the same suite.

    Raises UsageError for what is not there or cannot be compiled, and Interrupted after Ctrl-C, when the finished
    compiles are kept.
    """
    if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        raise UsageError("TRITON_INTERPRET is set, so that Triton compiles nothing: unset it")
    entries = scan(_asked(request), request.arches, request.defaults_only)
    cache = Cache(request.cache or cache_folder())
    tasks = [(entry.arch, entry.request) for entry in entries if entry.request is not None]
    rows: list[dict[str, Any]] = [_row(entry) for entry in entries]
    places = [index for index, entry in enumerate(entries) if entry.request is not None]
    with Progress(len(tasks)) as progress:

        def done(index: int, build: Build, cached: bool) -> None:
            entry = entries[places[index]]
            rows[places[index]] |= _built(entry, build)
            if request.assembly and build.verdict is Verdict.PASSED:
                _write_assembly(request.assembly, entry, build, rows[places[index]]["code"])
            progress.finished(entry, build, cached)

        try:
            compile_all(tasks, cache, done, request.jobs, request.timeout_s, request.files)
        except KeyboardInterrupt:
            kept = request.cache or cache_folder()
            raise Interrupted(
                f"interrupted; finished compiles are kept in {kept}: give the same command again"
            ) from None
    return rows


def cache_folder() -> Path:
    """Folder of finished compiles."""
    from ...kernels.cache_folder import cache_folder as root

    return root() / "isa"


def _asked(request: CompileRequest) -> list[Asked]:
    """List what the suite plans, for the providers that Triton compiles; the others are named on stderr."""
    selected = completed(
        {
            "suite": request.suite,
            "providers": list(request.providers),
            "dtype": request.dtype,
            "axes": list(request.axes),
            "filter_expression": request.filter_expression,
            "files": [str(file) for file in request.files],
        }
    )
    suite = suite_of(selected)
    suite = replace(suite, passes=request.passes or suite.passes)
    cells = plan_of(suite, selected)
    providers = registry.load(dict.fromkeys(cell.provider for cell in cells), request.files)
    others = [name for name in dict.fromkeys(cell.provider for cell in cells) if not compiles(providers[name])]
    asked = {(cell.provider, cell.problem, cell.scheme): None for cell in cells if cell.provider not in others}
    if not asked:
        raise UsageError(
            f"Triton compiles none of these: {', '.join(others)}; name a provider with Triton kernels with -p"
        )
    if others:
        click.echo(f"note: not compiled by Triton, or do not say what: {', '.join(others)}", err=True)
    return [Asked(providers[name], problem, scheme) for name, problem, scheme in asked]


def _row(entry: Entry) -> dict[str, Any]:
    problem, scheme = entry.asked.problem, entry.asked.scheme
    return {
        "arch": entry.arch,
        "provider": entry.asked.provider.name,
        "op": problem.op.value,
        "pass": problem.pass_.value,
        "dtype": scheme.dtype.value,
        "scheme": scheme.name,
        **{name: getattr(problem, name) for name in ("B", "E", "top_k", "M", "N", "K")},
        "problems": entry.problems,
        "config": dict(entry.config) or None,
        "default": entry.default,
        "verdict": (entry.verdict or Verdict.TIMEOUT).value,
        "reason": entry.reason,
    }


def _built(entry: Entry, build: Build) -> dict[str, Any]:
    assert entry.request is not None
    row: dict[str, Any] = {"verdict": build.verdict.value, "reason": build.reason, "triton": build.triton}
    row |= {"kernel": entry.request.kernel.partition(":")[2], "part": entry.request.part}
    row["specialization"] = specialization(entry)
    if build.verdict is Verdict.PASSED:
        row |= account(build, entry.arch, entry.request.decoded) | {"decoded_weights": entry.request.decoded_weights}
    return row


def _write_assembly(folder: Path, entry: Entry, build: Build, code: str) -> None:
    texts = (
        {"amdgcn": build.assembly}
        if architecture(entry.arch).is_amd
        else {"sass": build.machine_code, "ptx": build.assembly}
    )
    place = folder / entry.arch
    try:
        place.mkdir(parents=True, exist_ok=True)
        for suffix, text in texts.items():
            (place / f"{entry.asked.provider.name}-{code}.{suffix}").write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--asm {folder}: {error.strerror}; choose another folder") from None


class Progress:
    """Progress on stderr: a bar on a terminal, a line now and then elsewhere; a failure is told once per reason."""

    def __init__(self, total: int) -> None:
        output = console(sys.stderr)
        self._bar = Bar(
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=output,
            transient=True,
            disable=not output.is_terminal,
        )
        self._task = self._bar.add_task("", total=total)
        self._quiet = output.is_terminal
        self._total, self._done, self._cached = total, 0, 0
        self._last_line = time.monotonic()
        self._failures: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        if self._cached:
            click.echo(f"{self._cached} of {self._total} compiled before", err=True)

    def finished(self, entry: Entry, build: Build, cached: bool) -> None:
        """Count one build."""
        self._done += 1
        self._cached += cached
        what = f"{entry.arch} {entry.asked.provider.name} {entry.asked.problem}"
        self._bar.update(self._task, completed=self._done, description=escape(visible(what)))
        if build.verdict is not Verdict.PASSED:
            key = (build.verdict.value, build.reason)
            self._failures[key] += 1
            if self._failures[key] == 1:
                self._bar.console.print(
                    visible(f"{what}: {build.verdict}: {build.reason}"), markup=False, soft_wrap=True
                )
        now = time.monotonic()
        if not self._quiet and now - self._last_line >= LINE_EVERY_S:
            self._last_line = now
            print(f"{self._done} of {self._total} compiled: {what}", file=sys.stderr, flush=True)
