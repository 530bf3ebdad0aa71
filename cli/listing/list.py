"""`rooflens list`: what there is to choose from, and what has been measured."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ...reports.listing import listing as table
from ...reports.model import Block, Section
from ..shared.options import FILE
from ..shared.output import print_json
from ..shared.tables import show

as_json_option: Callable[[Any], Any] = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _answer(as_json: bool, value: object, *parts: Section | Block) -> None:
    if as_json:
        print_json(value)
    else:
        show(*parts)


@click.group(name="list", invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def listing(ctx: click.Context) -> None:
    """List suites, shapes, providers, devices, columns or runs.

    \b
    Examples:
      rooflens list suites
      rooflens list runs --json
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@listing.command(short_help="Suites that come with rooflens.")
@as_json_option
def suites(as_json: bool) -> None:
    """List the suites that come with rooflens.

    A suite is a TOML file; `rooflens run` takes one of these names, or the path of a file of your own.

    \b
    Example:
      rooflens list suites
    """
    from ...shapes import suite

    found = [suite.load(name) for name in suite.names()]
    rows = [
        (
            one.name,
            len(one.shapes),
            " ".join(one.dtypes),
            f"{one.axes['M'][0]}..{one.axes['M'][-1]}" if "M" in one.axes else None,
            " ".join(one.caches),
            len(one.providers),
            one.description,
        )
        for one in found
    ]
    names = ("suite", "shapes", "dtypes", "M", "caches", "providers", "description")
    _answer(as_json, found, table(names, rows, long=("description",)))


@listing.command(short_help="Shape sets, or the shapes of one.")
@click.argument("name", required=False)
@as_json_option
def shapes(name: str | None, as_json: bool) -> None:
    """List the shape sets, or the shapes of the set NAME (or of a CSV file of your own).

    N is the output features and K the input features of a weight W[N,K]; B counts the GEMMs of a batch.

    \b
    Examples:
      rooflens list shapes
      rooflens list shapes llm4bit_40
    """
    from ...shapes import shapeset

    if name is None:
        sets = [{"shape_set": one, "shapes": len(shapeset.load(one))} for one in shapeset.names()]
        _answer(as_json, sets, table(("shape set", "shapes"), [tuple(row.values()) for row in sets]))
        return
    found = shapeset.load(name)
    rows = [(shape.label, shape.N, shape.K, shape.B, shape.alias) for shape in found]
    _answer(as_json, found, table(("shape", "N", "K", "B", "alias"), rows, once=("B",), long=("alias",)))


@listing.command(short_help="Providers, and which can run here.")
@click.option("--providers", "files", multiple=True, type=FILE, help="Add the kernels of this file; repeat it.")
@as_json_option
def providers(files: tuple[Path, ...], as_json: bool) -> None:
    """List the implementations that can be timed, and whether each can run on this machine's best device.

    The question put to each is a problem of its family with N=K=4096 in bf16; for 4-bit weights M=1, NF4 in blocks of
    64 or INT4 in groups of 128. A provider that cannot run says why, and what to install where that helps.

    \b
    Examples:
      rooflens list providers
      rooflens list providers --providers my_kernels.py
    """
    from ...shapes.verdict import reason_groups
    from .availability import provider_rows

    device, rows = provider_rows(files)
    body = [(row.name, row.family, row.role, "yes" if row.supported else "no") for row in rows]
    reasons = reason_groups((row.name, row.reason) for row in rows if not row.supported)
    why = table(
        ("here", "why not"), [("no", f"{' '.join(names)}: {reason}") for reason, names, _ in reasons],
        long=("why not",),
    )  # fmt: skip
    parts = [Section("why", "", (why,))] if reasons else []
    found = table(("provider", "family", "role", "here"), body, title=f"on {device}")
    _answer(as_json, {"device": device, "providers": rows}, found, *parts)


@listing.command(short_help="Devices whose published peaks are known.")
@click.option("--measured", metavar="DEVICE", help="List what others measured on this device.")
@as_json_option
def devices(measured: str | None, as_json: bool) -> None:
    """List the devices whose published peaks are known, with the source of each number.

    \b
    Examples:
      rooflens list devices
      rooflens list devices --measured "AMD Instinct MI300X"
    """
    from ...shapes import device

    if measured is not None:
        _list_measured(measured, as_json)
        return
    found = device.specs()
    rows = [
        (
            spec.name,
            spec.arch,
            spec.compute_units,
            _scaled(spec.peak_flops.get("bf16"), 1e12, 1),
            _scaled(spec.peak_flops.get("fp32"), 1e12, 1),
            _scaled(spec.bandwidth_bytes_per_s, 1e9),
            _scaled(spec.last_level_bytes, 1 << 20),
            _scaled(spec.memory_bytes, 1 << 30),
            spec.status,
        )
        for spec in found
    ]
    names = ("device", "arch", "CUs or SMs", "bf16 TFLOPS", "fp32 TFLOPS", "GB/s", "last cache MiB", "GiB", "status")
    _answer(as_json, found, table(names, rows, once=("status",), heading=("arch", "status")))


@listing.command(short_help="Columns of the stored tables.")
@click.option("--markdown", is_flag=True, help="Print the page docs/columns.md.")
@as_json_option
def columns(markdown: bool, as_json: bool) -> None:
    """List every column of the stored tables: unit, meaning, and which direction is better.

    \b
    Examples:
      rooflens list columns
      rooflens list columns --markdown > docs/columns.md
    """
    from ...shapes.run_folder.columns import TABLES
    from .columns_page import columns_page

    if markdown and as_json:
        raise click.UsageError("choose one of --markdown and --json")
    if markdown:
        click.echo(columns_page(TABLES), nl=False)
        return
    rows = [
        (f"{stored.file}:{column.name}", column.kind, column.unit, column.better, column.description)
        for stored in TABLES
        for column in stored.columns
    ]
    names = ("column", "kind", "unit", "better", "description")
    _answer(as_json, TABLES, table(names, rows, long=("description",)))


@listing.command(short_help="Runs stored in ./runs.")
@as_json_option
def runs(as_json: bool) -> None:
    """List the runs stored in ./runs, the newest first. Any RUN argument takes these ids, a path, or `latest`.

    \b
    Example:
      rooflens list runs
    """
    from ...api.run_folders import RUNS, stored_runs

    found = stored_runs()
    if not found and not as_json:
        click.echo(f"no runs in {RUNS.absolute()}: measure one with rooflens run llm4bit-quick", err=True)
        return
    rows = [(run.id, run.suite, _minute(run.created_at), run.device, run.rows) for run in found]
    names = ("run", "suite", "created", "device", "rows")
    _answer(as_json, found, table(names, rows, once=("suite", "device"), long=("device",)))


def _minute(stamp: str) -> str:
    """Shorten an ISO time to the minute, as run.json has it: in UTC."""
    return stamp[:16].replace("T", " ")


def _scaled(value: float | None, unit: float, digits: int | None = None) -> float | None:
    """Scale a base unit for a reader; unknown stays unknown."""
    return None if value is None else round(value / unit, digits)


def _list_measured(name: str, as_json: bool) -> None:
    """Print published measurements of a device of the table, beside its published peaks."""
    from ...reports import formatting
    from ...shapes.device import spec
    from ...shapes.published_ceilings import published_ceilings

    peaks = spec(name)
    found = published_ceilings(name)
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo(f"no published measurement of {name} is known", err=True)
        return
    rows = []
    for one in found:
        peak = peaks.peak_flops.get(one.dtype) if one.dtype else peaks.bandwidth_bytes_per_s
        share = formatting.share(one.value / peak if peak else None)
        about = f"{one.source}; {one.caveat}" if one.caveat else one.source
        value = formatting.ceiling(one.ceiling, one.value)
        rows.append((one.ceiling, one.dtype, one.pattern, value, share, about))
    show(table(("ceiling", "dtype", "pattern", "measured", "of peak", "source"), rows, name, long=("source",)))
