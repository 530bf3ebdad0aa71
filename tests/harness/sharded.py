"""Split a stored run into shards, as jobs would have measured it, each with its own plan."""

import json
import shutil

from rooflens.harness.storage.merge import merge
from rooflens.harness.storage.merge_conflicts import obstacles
from rooflens.harness.storage.shards import opened

from ..analysis.synthetic import SIX_SHAPES
from ..csv_files import read_rows, write_rows

CSV = ("cells.csv", "samples.csv", "telemetry.csv")
"""Tables whose rows belong to a (cell, round)."""


def header(path):
    return path.read_text().splitlines()[0].split(",")


def unit(row):
    return row["cell_id"], int(row["round"])


def split(whole, folder, part_of, **changes):
    """Write `folder`/<part> for every value of `part_of(row of cells.csv)`, and return them in order of appearance.

    A shard planned every round of each cell that it holds a row of. `changes` go into run.json.
    """
    parts = {}
    for row in read_rows(whole / "cells.csv"):
        parts.setdefault(str(part_of(row)), []).append(row)
    return [_write_shard(whole, folder / name, rows, changes) for name, rows in parts.items()]


def _write_shard(whole, shard, rows, changes):
    shutil.copytree(whole, shard)
    units = {unit(row) for row in rows}
    for name in CSV:
        if (whole / name).exists():
            kept = [row for row in read_rows(whole / name) if unit(row) in units]
            write_rows(shard / name, header(whole / name), kept)
    planned = len({row["cell_id"] for row in rows})
    shapes = {(row["model"], row["layer"]) for row in rows}
    edit_manifest(
        shard,
        lambda manifest: (
            manifest
            | {
                "id": shard.name,
                "planned_units": planned * manifest["rounds"],
                "shapes": [shape for shape in manifest["shapes"] if (shape["model"], shape["layer"]) in shapes],
            }
            | changes
        ),
    )
    return shard


def edit_manifest(folder, change):
    path = folder / "run.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def edit_row(path, number, **values):
    """Change fields of data row `number` of a table."""
    rows = read_rows(path)
    rows[number] |= values
    write_rows(path, header(path), rows)


def manifest_of(folder):
    return json.loads((folder / "run.json").read_text())


SMALL = {
    "shapes": SIX_SHAPES[:2],
    "Ms": (1, 8),
    "providers": ("simt_4bit", "dequant_blas"),
    "rounds": 2,
    "samples": 3,
    "failures": lambda cell: ("oom", "out of memory, they said") if cell.M == 8 and cell.N == 512 else None,
}
"""8 cells, 2 of which fail in round 0: 14 units, 36 samples."""


def join(folders, output):
    with opened(folders) as shards:
        merge(shards, output, ["rooflens", "merge"])
    return output


def reasons(*folders):
    with opened(folders) as shards:
        return [reason for _, reason in obstacles(shards)]
