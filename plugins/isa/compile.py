"""From a suite to the rows of isa.csv: what is compiled, with progress on stderr. Imports torch and Triton."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ...api.progress import Progress
from ...api.selection import own_providers, skipped, suite_of
from ...harness.plan.plan import plan
from ...harness.sweep.events import Doing, Finished, Started
from ...kernels import registry
from ...kernels.aot import Build
from ...shapes.errors import Interrupted, UsageError
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Pass
from ...shapes.protocol import Protocol
from ...shapes.request import Request
from ...shapes.verdict import Verdict
from .compiled.account import account
from .compiled.compile_all import BuildCache, compile_all
from .compiled.scan import Asked, ScanRow, compiles, scan, specialization


def compile_suite(
    request: Request, arches: Sequence[str], passes: tuple[Pass, ...], defaults: bool, assembly: Path | None
) -> list[dict[str, Any]]:
    """Compile, and return the rows of isa.csv; the `assembly` is written to a folder.

    They are by architecture, then in the order of the suite; the same order for the same suite. `passes` replace the
    suite's, where there are any.

    Raises UsageError for what is not there or cannot be compiled, and Interrupted after Ctrl-C, when the finished
    compiles are kept.
    """
    protocol = request.over(Protocol())
    if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        raise UsageError("TRITON_INTERPRET is set, so that Triton compiles nothing: unset it")
    entries = scan(_asked(request, passes), arches, defaults)
    kept, jobs = cache_folder(), protocol.threads or len(os.sched_getaffinity(0))
    tasks = [(entry.arch, entry.request) for entry in entries if entry.request is not None]
    rows = [_row(entry) for entry in entries]
    places = [index for index, entry in enumerate(entries) if entry.request is not None]
    with CompileProgress(len(tasks)) as progress:

        def done(index: int, build: Build, cached: bool) -> None:
            entry = entries[places[index]]
            rows[places[index]] |= _built(entry, build)
            if assembly and build.verdict is Verdict.PASSED:
                _write_assembly(assembly, entry, build, rows[places[index]]["code"])
            progress.compiled(entry, build, cached)

        try:
            compile_all(tasks, BuildCache(kept), done, jobs, protocol.build_timeout_s, request.files)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; finished compiles are kept in {kept}: give the same command again"
            ) from None
    return rows


def cache_folder() -> Path:
    """Folder of finished compiles."""
    from ...kernels.cache_folder import cache_folder as root

    return root() / "isa"


def _asked(request: Request, passes: tuple[Pass, ...]) -> list[Asked]:
    """List what the suite plans, for the providers that Triton compiles; the others are named on stderr."""
    with Progress(sys.stderr) as progress:
        suite = suite_of(request, own_providers(request, progress.doing))
    suite = replace(suite, passes=passes or suite.passes)
    cells = plan(suite, request.filter_expression or "")
    for note in skipped(suite):
        click.echo(f"note: {note}", err=True)
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


def _row(entry: ScanRow) -> dict[str, Any]:
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


def _built(entry: ScanRow, build: Build) -> dict[str, Any]:
    assert entry.request is not None
    row: dict[str, Any] = {"verdict": build.verdict.value, "reason": build.reason, "triton": build.triton}
    row |= {"kernel": entry.request.kernel.partition(":")[2], "part": entry.request.part}
    row["specialization"] = specialization(entry)
    if build.verdict is Verdict.PASSED:
        row |= account(build, entry.arch, entry.request.decoded) | {"decoded_weights": entry.request.decoded_weights}
    return row


def _write_assembly(folder: Path, entry: ScanRow, build: Build, code: str) -> None:
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


class CompileProgress(Progress):
    """Progress on stderr; a failure is told once per reason."""

    def __init__(self, total: int) -> None:
        super().__init__(sys.stderr)
        self(Started(total, 0))
        self._cached = 0
        self._told: set[tuple[str, str]] = set()

    def compiled(self, entry: ScanRow, build: Build, cached: bool) -> None:
        """Count one build."""
        self._cached += cached
        what = f"{entry.arch} {entry.asked.provider.name} {entry.asked.problem}"
        self(Finished(1))
        self(Doing(what))
        failure = (build.verdict.value, build.reason)
        if build.verdict is not Verdict.PASSED and failure not in self._told:
            self._told.add(failure)
            self.remark(f"{what}: {build.verdict}: {build.reason}")

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if self._cached:
            click.echo(f"{self._cached} of {self._total} compiled before", err=True)
