"""`rooflens calibrate`: the measured ceilings of this device, beside its published peaks."""

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..harness.telemetry.silence import silenced
from ..reports import formatting as fmt
from ..reports.listing import listing
from ..reports.model import Remarks, Section
from ..shapes import values
from ..shapes.device import Device
from ..shapes.errors import RooflensError, UsageError, quote, unknown_name
from ..shapes.files.csv_file import csv_text
from ..shapes.protocol import Protocol
from ..shapes.request import Request
from ..shapes.run_folder.columns import CEILINGS, PUBLISHED
from ..shapes.scheme import DType
from .shared.options import FILE, command_with, parameters
from .shared.output import print_json
from .shared.tables import note, show

Row = dict[str, Any]


@click.command("calibrate", cls=command_with(), params=parameters("calibrate"))
@click.option("--dtype", metavar="LIST", help="Types whose GEMM peak is measured; the default is bf16,fp16,fp32,fp8.")
@click.option("-o", "--output", type=FILE, help="Write ceilings.csv here.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: byte/s, FLOP/s and seconds.")
def calibrate(dtype: str | None, output: Path | None, as_json: bool, **options: Any) -> None:
    """Measure the ceilings of this device.

    Bandwidth of memory and of each cache, GEMM peak per type on random data, and the time of launches that do next to
    nothing: the limits of a roofline. Takes some seconds; rooflens run does the same before and after its cells. A
    value above the published peak is rejected, one far below all known measurements of the device gets a warning:
    measure on an idle device.

    \b
    Examples:
      rooflens calibrate
      rooflens calibrate --dtype bf16 --set timer=graph -o ceilings.csv
      rooflens calibrate --device cpu --json
    """
    dtypes, request = _dtypes(dtype), Request.for_command("calibrate", options)
    if sys.stderr.isatty():
        click.echo("calibrating, which takes some seconds ...", err=True)
    with silenced(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        device, rows, remarks = _measure(request, dtypes)
    if not any(row["kind"] == "measured" for row in rows):
        raise RooflensError(
            f"nothing could be measured on {device.name}: {remarks[0] if remarks else 'no reason given'}"
        )
    table = _beside_published(rows)
    if as_json:
        print_json({"device": device, "ceilings": table, "remarks": remarks})
        note(*remarks)
    else:
        show(_section(device, table, dtypes, remarks))
    if output:
        _write(output, rows)
        click.echo(f"wrote {output}", err=True)


def _dtypes(text: str | None) -> list[str]:
    known = [*(dtype.value for dtype in DType), "fp8"]
    chosen = values.names(text) if text is not None else known
    for name in chosen:
        if name not in known:
            raise unknown_name("dtype", name, known)
    if not chosen:
        raise UsageError(f"--dtype {quote(text)}: name at least one of {', '.join(known)}")
    return list(chosen)


def _measure(request: Request, dtypes: Sequence[str]) -> tuple[Device, list[Row], list[str]]:
    """Set the process up as the worker of a run does, and calibrate."""
    import torch

    from ..harness.ceilings.probe import calibrate as measure
    from ..harness.machine.device import find_device
    from ..harness.timing.accelerator import accelerator

    protocol = request.over(Protocol())
    torch.set_num_threads(protocol.threads or len(os.sched_getaffinity(0)))
    torch.set_float32_matmul_precision("highest")  # fp32 means fp32: no TF32, no xf32
    device = find_device(request.device or "auto", protocol.llc_bytes)
    if device.is_gpu:
        torch.cuda.set_device(device.index)
    rows, remarks = measure(device, accelerator(device), dtypes, protocol.timer)
    return device, rows, list(remarks.values())


def _beside_published(rows: Sequence[Row]) -> list[Row]:
    """One row per measured ceiling, with the published one and the share of it (None where there is none).

    Published ceilings that nothing was measured for follow, with the value None.
    """
    published = {_key(row): row for row in rows if row["kind"] in PUBLISHED}
    measured = [row for row in rows if row["kind"] == "measured"]
    table = []
    for row in measured:
        limit = published[_key(row)]["value"] if _key(row) in published else None
        table.append({**row, "published": limit, "share": row["value"] / limit if limit else None})
    missing = [row for key, row in published.items() if key not in {_key(row) for row in measured}]
    return table + [{**row, "published": row["value"], "value": None, "share": None} for row in missing]


def _key(row: Row) -> tuple[str, str, str]:
    return row["ceiling"], row["level"], row["dtype"]


def _section(device: Device, table: Sequence[Row], dtypes: Sequence[str], remarks: Sequence[str]) -> Section:
    rows: list[tuple[str, ...]] = [
        (
            row["ceiling"],
            row["level"],
            row["pattern"],
            row["dtype"],
            fmt.ceiling(row["ceiling"], row["value"]),
            fmt.ceiling(row["ceiling"], row["published"]),
            fmt.share(row["share"]),
            row["source"] if row["kind"] == "measured" else "",
        )
        for row in table
        if row["kind"] == "measured" or row["dtype"] in ("", *dtypes)
    ]
    names: tuple[str, ...] = ("ceiling", "level", "pattern", "dtype", "measured", "published", "share", "how")
    published = [row["published"] for row in table if row["published"] is not None]
    if not published:  # of a CPU, or a device that the table does not know
        names, rows = (*names[:5], names[7]), [(*row[:5], row[7]) for row in rows]
    title = f"on {device.name} ({device.arch}){'' if published else ', no published peaks known'}"
    return Section("ceilings", "Ceilings", (listing(names, rows, title, long=("how",)), Remarks(tuple(remarks))))


def _write(path: Path, rows: Sequence[Row]) -> None:
    from ..reports.write import write_bytes

    text = csv_text(CEILINGS.names, ([row.get(name) for name in CEILINGS.names] for row in rows))
    write_bytes(path, text.encode("utf-8"))
