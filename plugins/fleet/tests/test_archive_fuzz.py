"""Damaged and hostile archives of results, received by a fleet and found by one that resumes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from rooflens.plugins.fleet.engine.protocol import ResultArchive
from rooflens.plugins.fleet.engine.result_archive import entries, pack
from rooflens.plugins.fleet.engine.result_store import ResultStore
from rooflens.shapes.errors import UsageError

from plugins.fleet.tests.fabricated import archive, quick_jobs, run_manifest, slot
from tests.fuzz.mutate import damaged
from tests.fuzz.property import INPUTS, LONGEST, PARTS

EVERYDAY = 60
JOBS = quick_jobs(shapes=1)


def broken(content: bytes, random: Random) -> bytes:
    """Damage the archive as a whole, or one file in it."""
    if random.random() < 0.3:
        return damaged("archive.zip", content, random)
    files = entries(content, "archive")
    name = random.choice(sorted(files))
    return pack(files | {name: damaged(name, files[name], random)})


def complaint(error: UsageError) -> str:
    text = str(error)
    if "\n" in text or len(text) > LONGEST or any(sign in text for sign in "\x1b\u202e\0"):
        return f"{len(text)} characters: {text[:400]!r}"
    return ""


@contextmanager
def closing_store(folder: Path) -> Iterator[ResultStore]:
    store = ResultStore(folder, run_manifest(), JOBS)
    try:
        yield store
    finally:
        store.release()


@pytest.mark.parametrize("part", range(PARTS))
def test_no_archive_breaks_a_fleet(part, tmp_path):
    """It is refused in one line, or its rows are those of its job; what was received before is still there."""
    first, second = (archive(job, slot(0)) for job in JOBS)
    wrong = set()
    for number in range(part, INPUTS or EVERYDAY, PARTS):
        random, folder = Random(f"archive {number}"), tmp_path / str(number)
        content = broken(second.content, random)
        with closing_store(folder) as store:
            store.add_result(first)
        before = set((folder / "cells.csv").read_text().splitlines())
        found = random.random() < 0.5
        if found:
            (folder / "shards" / f"{second.key}.zip").write_bytes(content)
        try:
            with closing_store(folder) as store:
                if not found:
                    store.add_result(ResultArchive(second.key, content))
        except UsageError as error:
            wrong.add(complaint(error) and f"input {number}: {complaint(error)}")
        assert before <= set((folder / "cells.csv").read_text().splitlines())
    assert not wrong - {""}
