"""Which files are behind the tables: run, versions, and a checksum of every file that was read."""

from ....shapes.run_folder.columns import CANARY, CEILINGS, CELLS, SAMPLES, TELEMETRY, TUNING
from ....shapes.run_folder.manifest import MANIFEST
from ... import formatting as fmt
from ...model import Column, Section, Table, TableCell, Text, integer, text_columns, texts
from ...view import View

BEHIND = {
    SAMPLES.file: "every time, rate, ratio and interval",
    CELLS.file: "outcomes, correctness, configurations, FLOPs and bytes",
    CEILINGS.file: "roofs, bounds and bound classes",
    TELEMETRY.file: "clock, temperature and power",
    CANARY.file: "drift of the device",
    TUNING.file: "searches for configurations",
    MANIFEST: "suite, device, environment, providers and protocol",
}
"""File of a run folder -> what in a report comes from it."""


def provenance(view: View) -> Section:
    """Name the run, and list its files with their checksums."""
    run, manifest = view.run, view.manifest
    tables = {
        SAMPLES.file: run.samples,
        CELLS.file: run.cells,
        CEILINGS.file: run.ceilings,
        TELEMETRY.file: run.telemetry,
        CANARY.file: run.canary,
        TUNING.file: run.tuning,
    }
    lines = tuple(
        (
            *texts(name, what),
            integer(len(tables[name])) if name in tables else TableCell(""),
            TableCell(run.digests[name][:16], run.digests[name]),
        )
        for name, what in BEHIND.items()
        if name in run.digests
    )
    columns = (*text_columns("file", "what comes from it"), Column("rows"), *text_columns("SHA-256"))
    stored = manifest.environment
    versions = [f"{name} {stored[name]}" for name in ("rooflens", "commit", "torch", "triton") if stored.get(name)]
    merged = f", merged from {len(manifest.devices)} devices" if run.several_devices else ""
    planned = f"{fmt.count(run.planned_units - run.missing_units, run.planned_units)} planned rounds of cells"
    said = f"; {', '.join(versions)}" if versions else ""
    lead = (
        f"Run {view.run_id} of {manifest.created_at or 'an unknown time'}{merged}, {planned}"
        f"{said}. Everything above is computed from these files; source "
        "hashes of the providers are under “How to reproduce”."
    )
    reading = "The first 16 digits of the checksum of each file, uncompressed, as it was read for this report."
    table = Table("files", "Files behind this report", columns, lines, reading=reading)
    return Section("provenance", "Provenance", (Text(lead), table) if lines else (Text(lead),))
