"""`rooflens calibrate`: the measured ceilings of this device, beside its published peaks."""

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..reports import formatting as fmt
from ..reports.listing import listing
from ..reports.model import Remarks, Section
from ..shapes import values
from ..shapes.errors import RooflensError, UsageError, quote, unknown_name
from ..shapes.files.csv_file import csv_text
from ..shapes.protocol import MOST, TIMERS
from ..shapes.run_folder.columns import CEILINGS, PUBLISHED
from ..shapes.scheme import DType
from .shared.output import print_json
from .shared.tables import note, show

if TYPE_CHECKING:
    from ..shapes.device import Device

Row = dict[str, Any]


@click.command()
@click.option(
    "--device", default="auto", metavar="NAME", help="cpu, cuda or cuda:N; the default is a GPU if there is one."
)
@click.option("--dtype", metavar="LIST", help="Types whose GEMM peak is measured; the default is bf16,fp16,fp32,fp8.")
@click.option("--timer", type=click.Choice(TIMERS), default="auto", help="How time is taken; see rooflens run --help.")
@click.option("--llc", metavar="SIZE", help="Last-level cache, such as 256MiB, if it is not detected correctly.")
@click.option(
    "--threads", type=click.IntRange(1, MOST), help="CPU threads; the default is every core this process may use."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write ceilings.csv here."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: byte/s, FLOP/s and seconds.")
def calibrate(**options: Any) -> None:
    """Measure the ceilings of this device.

    Bandwidth of memory and of each cache, GEMM peak per type on random data, and the time of launches that do next to
    nothing: the limits of a roofline. Takes some seconds; rooflens run does the same before and after its cells. A
    value above the published peak is rejected, one far below all known measurements of the device gets a warning:
    measure on an idle device.

    \b
    Examples:
      rooflens calibrate
      rooflens calibrate --dtype bf16 --timer graph -o ceilings.csv
      rooflens calibrate --device cpu --json
    """
    dtypes = _dtypes(options["dtype"])
    llc_bytes = values.size_bytes(options["llc"], "--llc") if options["llc"] else None
    if sys.stderr.isatty():
        click.echo("calibrating, which takes some seconds ...", err=True)
    with _silence():
        device, rows, remarks = _measure(options, dtypes, llc_bytes)
    if not any(row["kind"] == "measured" for row in rows):
        raise RooflensError(
            f"nothing could be measured on {device.name}: {remarks[0] if remarks else 'no reason given'}"
        )
    table = _beside_published(rows)
    if options["as_json"]:
        print_json({"device": device, "ceilings": table, "remarks": remarks})
        note(*remarks)
    else:
        show(_section(device, table, dtypes, remarks))
    if options["output"]:
        _write(options["output"], rows)
        click.echo(f"wrote {options['output']}", err=True)


def _dtypes(text: str | None) -> list[str]:
    known = [*(dtype.value for dtype in DType), "fp8"]
    chosen = values.names(text) if text is not None else known
    for name in chosen:
        if name not in known:
            raise unknown_name("dtype", name, known)
    if not chosen:
        raise UsageError(f"--dtype {quote(text)}: name at least one of {', '.join(known)}")
    return list(chosen)


def _measure(
    options: dict[str, Any], dtypes: Sequence[str], llc_bytes: int | None
) -> tuple["Device", list[Row], list[str]]:
    """Set the process up as the worker of a run does, and calibrate."""
    import torch

    from ..harness.ceilings.probe import calibrate as measure
    from ..harness.machine.device import find_device
    from ..harness.timing.accelerator import accelerator

    torch.set_num_threads(options["threads"] or len(os.sched_getaffinity(0)))
    torch.set_float32_matmul_precision("highest")  # fp32 means fp32: no TF32, no xf32
    device = find_device(options["device"], llc_bytes)
    if device.is_gpu:
        torch.cuda.set_device(device.index)
    rows, remarks = measure(device, accelerator(device), dtypes, options["timer"])
    return device, rows, list(remarks.values())


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress what libraries print: from Python, and below it, where compilers and drivers print."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(stream) for stream in (1, 2)]
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        try:
            for stream in (1, 2):
                os.dup2(nowhere.fileno(), stream)
            with redirect_stdout(nowhere), redirect_stderr(nowhere), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            for stream, old in zip((1, 2), kept, strict=True):
                os.dup2(old, stream)
                os.close(old)


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


def _section(device: "Device", table: Sequence[Row], dtypes: Sequence[str], remarks: Sequence[str]) -> Section:
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
