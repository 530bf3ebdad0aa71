"""Chapters about the run rather than its results: how and where it was measured, its files, and what it cannot say."""

import shlex
from collections.abc import Iterable, Iterator

from ....shapes.gpu_architectures import architecture
from ....shapes.run_folder.columns import CANARY, CEILINGS, CELLS, SAMPLES, TELEMETRY, TUNING
from ....shapes.run_folder.manifest import MANIFEST, StoredProtocol
from ... import formatting as fmt
from ...model import Bullets, Cells, CodeBlock, Column, Section, Table, TableCell, Text, table
from ...view import View
from .conditions import conditions, facts_table, has_telemetry, how_timed, sample_counts


def reproduce(view: View) -> Section:
    """Say which commands measured this, which one writes this report, and from which files."""
    manifest = view.manifest
    commands = [shell(manifest.command)] if manifest.command else []
    commands.append(shell(["rooflens", "report", view.run_path, *view.options, "-o", "report.html", "-o", "report.md"]))
    rows = [
        ("suite", manifest.suite),
        ("seed of order and operands", "" if manifest.seed is None else str(manifest.seed)),
        ("schemes", ", ".join(view.schemes)),
        ("dtypes", ", ".join(view.dtypes)),
        ("M", fmt.sizes(view.Ms)),
        ("shapes", str(len(view.shapes))),
        ("started", manifest.created_at),
    ]
    if code := manifest.repository:
        of = f" of {code.committed_at}: {code.subject}" if code.commit else ""
        has_files = bool((manifest.request or {}).get("files"))
        rows.append((f"commit of the {'kernels' if has_files else 'working directory'}", f"{code.label}{of}"))
    return Section(
        "reproduce",
        "How to reproduce",
        (
            Text("The first command measures, the last one writes this report again from the stored files."),
            CodeBlock("\n".join(commands)),
            facts_table("workload", "What was asked for", rows),
            *_files(view),
        ),
    )


def shell(words: Iterable[str]) -> str:
    """Join the words of a command so that a shell reads them back; a filter with quotes stays readable."""
    return " ".join(f'"{word}"' if "'" in word and not set(word) & _ACTIVE else shlex.quote(word) for word in words)


_ACTIVE = frozenset('"$`\\!\n')
"""What a shell does not take literally between double quotes."""


INTERVALS = (
    "The interval of a time or of a ratio (95%) is Student's t over the logarithms of its rounds, at every "
    "number of rounds from 2 on. Its variance borrows from the other cells where there are ten or more, and is "
    "never below the cell's own. Half a step of a coarse timer is added, for each side of a ratio."
)


def protocol(view: View) -> Section:
    """Say how times were taken and what every printed statistic is."""
    stated = view.manifest.protocol
    rows = [
        *how_timed(view),
        ("caches", ", ".join(stated.caches or view.caches)),
        ("stop rule", _stop_rule(stated)),
        ("rounds", str(view.manifest.rounds or "")),
        ("samples per cell", sample_counts(view)),
        ("timeout per cell", f"{stated.timeout_s:g} s" if stated.timeout_s else ""),
        ("timeout per build", f"{stated.build_timeout_s:g} s" if stated.build_timeout_s else ""),
        ("threads", str(stated.threads or "")),
        ("last-level cache evicted when cold", fmt.bytes_size(stated.llc_bytes)),
    ]
    return Section(
        "protocol",
        "Protocol and statistics",
        (
            facts_table("protocol-table", "Protocol", [row for row in rows if row[1]]),
            Bullets(
                (
                    "A cell is one shape, M, dtype, scheme, cache state and provider. Its time is the geometric "
                    "mean over rounds of the median of a round's samples; only the launch is timed, never packing, "
                    "compiling or allocation.",
                    INTERVALS
                    if view.cells["time_low_s"].notna().any()
                    else "No cell has two rounds: no time and no ratio has an interval.",
                    "A ratio is the geometric mean over rounds of the ratio of the two round medians; both sides were "
                    "measured on the same operands, alternating within each round, so that slow drift hits both.",
                    "A mean of ratios is geometric, over distinct GEMMs (one that appears under two model names is one "
                    "vote) in which both sides have a time, with its count. TFLOPS are never averaged.",
                    "Output is checked against an fp64 product of the same quantized bits before anything is timed; "
                    "a cell without a correct output has a verdict and no time.",
                    "Bandwidth is compulsory bytes (every operand, its scales and the output once) over time; FLOPs "
                    "are the useful 2MNK, without dequantization or padding.",
                )
            ),
        ),
    )


def environment(view: View) -> Section:
    """List the device and the software that ran."""
    device = view.run.device
    compute = "cores" if device.is_cpu else architecture(device.arch).units_name
    rows = [
        ("device", device.name),
        ("vendor", device.vendor),
        ("architecture", device.arch),
        (compute, str(device.compute_units or "")),
        ("L2 cache", fmt.bytes_size(device.l2_bytes or None)),
        ("last-level cache", fmt.bytes_size(device.llc_bytes or None)),
        ("memory", fmt.bytes_size(device.memory_bytes or None)),
        ("published specification", view.manifest.device_spec or "none known for this device"),
    ]
    rows += [(name, str(value)) for name, value in view.manifest.environment.items()]
    blocks = (facts_table("environment-table", "Device and software", rows), *conditions(view))
    return Section("environment", "Environment", blocks)


def limits(view: View) -> Section:
    """Say what a reader must not conclude."""
    device = view.run.device.name or "this device"
    seen = (
        "Clocks, temperature and power were read once per batch of samples: what is shorter is not seen, and a canary "
        "that moved between two readings does not say when."
        if has_telemetry(view)
        else "Clocks, temperature and power are not stored with the samples, so throttling is not excluded; "
        "interleaved rounds spread it over all providers."
    )
    items = [
        f"It describes {device} with the software listed above. Another device, driver or library version has to be "
        f"measured.",
        "Operands are random normal values. Real activations can change power and clocks, and with them the time of "
        "large GEMMs.",
        seen,
        "Cold means that the last-level cache was evicted before every sample, warm that nothing was. A model at "
        "work is somewhere between.",
        "A crossover lies between two measured M and is interpolated on log2 M. It is not a dispatch rule: see the "
        "worst loss at the constant threshold.",
        "Ceilings come from a short calibration. A kernel above a measured ceiling shows that the calibration missed "
        "the best access pattern.",
    ]
    if view.rounds < 5:
        items.insert(
            0,
            f"With {fmt.plural(view.rounds, 'round')} per cell the intervals of times do not contain what differs from "
            "round to round (5 or more are needed), and those of ratios rest on few values: read small differences as "
            "undecided.",
        )
    if view.run.device.is_cpu:
        items.insert(0, "It was measured on a CPU. It says nothing about how these kernels compare on a GPU.")
    return Section("limits", "What this report cannot show", (Bullets(tuple(items)),))


def _stop_rule(stated: StoredProtocol) -> str:
    parts = (
        f"interval of the median within ±{stated.target_ci * 100:g}%" if stated.target_ci else "",
        f"at least {stated.min_samples} samples" if stated.min_samples else "",
        f"at most {stated.budget_s:g} s per round" if stated.budget_s else "",
    )
    return ", ".join(filter(None, parts))


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


def _files(view: View) -> Iterator[Table | Text]:
    """Name the run, and list its files with their checksums."""
    run, manifest = view.run, view.manifest
    rows = {
        SAMPLES.file: len(run.samples),
        CELLS.file: len(run.cells),
        CEILINGS.file: len(run.ceilings),
        TELEMETRY.file: len(run.telemetry),
        # `canary` has one reading for all of a process before its first time
        CANARY.file: len(run.canary) + len(run.starts) - run.starts["process"].nunique(),
        TUNING.file: len(run.tuning),
    }
    lines: list[Cells] = [
        {
            "file": name,
            "what comes from it": what,
            Column("rows"): rows.get(name, ""),
            "SHA-256": TableCell(run.digests[name][:16], run.digests[name]),
        }
        for name, what in BEHIND.items()
        if name in run.digests
    ]
    merged = f", merged from {len(manifest.devices)} devices" if run.several_devices else ""
    yield Text(
        f"Run {run.id}{merged}, cells: {fmt.coverage(view.coverage)}. Everything in this report is computed from the "
        "files of its folder."
    )
    if lines:
        reading = "The first 16 digits of the checksum of each file, uncompressed, as it was read for this report."
        yield table("files", "Files behind this report", lines, reading)
