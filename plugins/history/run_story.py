"""What one run contributes to the history of its cells."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from ...analysis.frames.coordinates import COORDINATES, METHOD
from ...analysis.frames.load import RunData
from ...analysis.run.summarize import summarize
from ...analysis.stability.canary import KINDS
from ...shapes.errors import UsageError, quote
from ...shapes.run_folder.manifest import StoredRepository

CELL = (*COORDINATES, "provider")
"""What makes points of two runs the same cell."""

_VERSIONS = ("driver", "torch", "triton", "CUDA", "HIP", "threads")

KEY = ("device", "arch", *_VERSIONS, *METHOD)
"""What must be the same along a series, each as text, "" where it is not stored. `threads` is of a CPU only."""

TIMES = ("time_s", "time_low_s", "time_high_s", "resolution_s")
"""Time of a cell, its 95 % interval over the rounds of the run, and the step of the timer."""

FACTS = ("role", "source", "artifact", "config", "dispatched", "disturbed")
"""What a run says of each cell besides its time."""


@dataclass(frozen=True, slots=True)
class RunMark:
    """One run: its name, where it lies, when it began, and its canary: medians in seconds, None without one.

    made_at  what runs are ordered by, see `shapes.run_folder.manifest`
    code     the repository that its kernels come from; without a commit where that is not stored
    uuid     of its device: another one of the same model continues the series
    """

    id: str
    folder: str
    created_at: str
    made_at: float
    code: StoredRepository
    uuid: str
    gemm_s: float | None
    copy_s: float | None
    suite: str = ""

    @property
    def commit(self) -> str:
        """Commit of its kernels, "" where that is unknown or not exactly what was measured."""
        return "" if self.code.dirty else self.code.commit

    @property
    def canary_s(self) -> float:
        """Geometric mean of GEMM and copy, NaN where the run has no canary."""
        return math.sqrt(self.gemm_s * self.copy_s) if self.gemm_s and self.copy_s else math.nan


@dataclass(frozen=True, slots=True, eq=False)
class Story:
    """What one run contributes: its mark, and per cell CELL, KEY, verdict, TIMES, impossible, FACTS."""

    run: RunMark
    cells: pd.DataFrame


def observe(run: RunData, commit: str = "") -> Story:
    """Reduce a run, of a `commit` if something else than run.json says so, to what its history needs.

    Raises UsageError when run.json does not say when it was made.
    """
    created_at = run.manifest.created_at
    when = run.manifest.made_at
    if when == -math.inf:
        raise UsageError(
            f"{run.folder}: created_at = {quote(created_at)} in run.json is not a time, so its place is "
            "unknown; exclude this run"
        )
    summary = summarize(run)
    environment = run.manifest.environment | {"threads": run.manifest.threads if run.device.is_cpu else ""}
    key = {"device": run.device.name, "arch": run.device.arch}
    key |= {name: environment.get(name, "") for name in _VERSIONS}
    cells = summary[[*CELL, *METHOD, "verdict", *TIMES, "impossible", *FACTS]]
    code = run.manifest.repository or StoredRepository()
    if commit and commit != code.commit:
        code = StoredRepository(commit=commit)
    canary = {f"{kind}_s": float(run.canary[f"{kind}_s"].median()) if len(run.canary) else None for kind in KINDS}
    mark = RunMark(
        id=run.id,
        folder=str(run.folder),
        created_at=created_at,
        made_at=when,
        code=code,
        uuid=run.device.uuid,
        suite=run.manifest.suite,
        **canary,
    )
    return Story(mark, cells.assign(**{name: "" if value is None else str(value) for name, value in key.items()}))


def key_differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Say in which parts two keys differ: "driver 580 -> 590"."""
    return [f"{name} {old[name] or 'unknown'} -> {new[name] or 'unknown'}" for name in KEY if old[name] != new[name]]
