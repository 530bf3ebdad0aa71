"""How long the problems of a suite took in an earlier run, for the forecast of a fleet."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..shapes import csv_file
from ..shapes.errors import UsageError
from ..shapes.json_file import read_object
from .runs import MANIFEST

if TYPE_CHECKING:
    from ..harness.fleet.jobs import Job


def known_seconds(parent: Path, suite: str, arch: str, jobs: "Sequence[Job]") -> dict[str, float]:
    """Return seconds by the key of the job, from the newest run under `parent` of the suite on this architecture.

    A cell took its rounds and its preparation. Problems that the run lacks, or has in part, are not in the result, and
    what cannot be read is left out: it is only a forecast.
    """
    from ..harness.plan import MODEL_FIELDS

    newest, folder = "", parent
    for path in parent.glob(f"*/{MANIFEST}"):
        try:
            content = read_object(path)
            if (content["suite"], content["device"]["arch"]) == (suite, arch) and content["created_at"] > newest:
                newest, folder = content["created_at"], path.parent
        except (OSError, UsageError, KeyError, TypeError):
            continue
    if not newest:
        return {}
    took: dict[tuple[str, ...], float] = {}
    try:
        with (folder / "cells.csv").open("rb") as file:
            for _, row in csv_file.rows(file, folder / "cells.csv"):
                place = tuple(row[name] for name in MODEL_FIELDS)
                prepared = float(row["prepare_s"] or 0) if row["round"] == "0" else 0.0
                took[place] = took.get(place, 0.0) + float(row["elapsed_s"] or 0) + prepared
    except (OSError, UsageError, ValueError, KeyError):
        return {}
    return {job.key: sum(took[place] for place in job.cells) for job in jobs if _has(took, job)}


def _has(took: Mapping[tuple[str, ...], float], job: "Job") -> bool:
    return all(place in took for place in job.cells)
