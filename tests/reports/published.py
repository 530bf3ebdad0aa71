"""Runs with the times that pull requests printed, so that what a report derives from them can be held against it.

What was not printed is made up so that it changes nothing that is compared. Where a table prints rates alone, its times
are those rates turned over.
"""

from dataclasses import replace
from pathlib import Path

from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.reports.build import build_report
from rooflens.reports.model import Report
from rooflens.reports.sections.speedups.three_way import three_way
from rooflens.reports.sections.summary.takeaways import takeaways
from rooflens.reports.view import View

from ..csv_files import read_rows
from .planted import synthetic

FOLDER = Path(__file__).parents[1] / "data" / "published"

STILL = {"round_noise": 0, "sample_noise": 0}

MI350X = replace(
    synthetic.H200,
    device=synthetic.H200.device | {"name": "AMD Instinct MI350X", "vendor": "AMD", "arch": "gfx950"},
    spec_name="AMD Instinct MI350X",
    peaks={"bf16": 1300e12},
    spec_peaks={"bf16": 2306.9e12},
)
"""bf16 dense peak of AMD's data sheet, for the share of peak that the pull request states."""

MI300X = replace(
    synthetic.H200,
    device=synthetic.H200.device | {"name": "AMD Instinct MI300X", "vendor": "AMD", "arch": "gfx942"},
    spec_name="AMD Instinct MI300X",
    peaks={"bf16": 600e12, "fp8": 900e12},
    spec_peaks={"bf16": 1307.4e12, "fp8": 2614.9e12},
)
"""bf16 and fp8 dense peaks of AMD's data sheet."""

NAMED = {
    "old_loop": {"role": "candidate", "source": "0123"},
    "new_grouped": {"role": "candidate", "source": "4567"},
    "bf16_blas": {"role": "reference", "source": "89ab"},
}
"""Roles of the three sides of the grouped kernels."""


def rows_of(name: str) -> list[dict[str, str]]:
    """Rows of a published table, as text."""
    return read_rows(FOLDER / f"{name}.csv")


def flat_run(folder: Path, **options: object) -> Report:
    """Batched sweep: one provider, rates alone; B, M, N, K of DeepSeek-R1 under tensor parallelism."""
    rows = rows_of("aiter2297_deepseek_tflops")
    times = {}
    for row in rows:
        B, M, N, K = (int(row[name]) for name in "BMNK")
        layer = f"mla_kv_b {N}x{K} tp{128 // B} B{B}"
        times[layer, M] = 2 * B * M * N * K / (float(row["tflops"]) * 1e12)
    shapes = tuple(dict.fromkeys((layer, int(layer.split()[1].split("x")[0])) for layer, _ in times))
    batch = {layer: int(layer.rpartition("B")[2]) for layer, _ in times}
    listed = tuple(("DeepSeek-R1", layer, N, 640 - N) for layer, N in shapes)  # 512 x 128 and 128 x 512
    synthetic.write_run(
        folder,
        suite="a16w8-deepseek",
        shapes=listed,
        Ms=(1, 32, 128),
        providers=("kernel_a16w8", "other"),
        baseline="other",
        challengers=("kernel_a16w8",),
        machine=MI350X,
        schemes=("a16w8-128x128",),
        latency=lambda cell: times[cell.layer, cell.M] * (2 if cell.provider == "other" else 1),
        columns=lambda cell, round_: {
            "B": batch[cell.layer],
            "flops": batch[cell.layer] * cell.problem.flops,
            "math_dtype": "bf16",
        },
        **STILL,
    )
    return build_report(load_run(folder), preset="flat", **options)


def grouped_run(folder: Path, table: str, reference: bool) -> Report:
    """Grouped kernels: printed times of two or three sides. M is printed per expert, and stored in total."""
    rows = rows_of(table)
    keys = ["old_ms", "new_ms", *(["bf16_ms"] if reference else [])]
    names = tuple(NAMED)[: len(keys)]
    times, shapes, sizes = {}, [], {}
    for row in rows:
        E, M, K, N = (int(row[name]) for name in ("E", "M", "K", "N"))
        layer = f"E{E} M{M} {N}x{K}"
        shapes.append(("generic", layer, N, K))
        sizes[layer] = (E, E * M)
        for name, key in zip(names, keys, strict=True):
            times[layer, name] = float(row[key]) * 1e-3

    def columns(cell: object, round_: int) -> dict[str, object]:
        E, M = sizes[cell.layer]  # type: ignore[attr-defined]
        dtype = "bf16" if cell.provider == "bf16_blas" else "fp8"  # type: ignore[attr-defined]
        return {"op": "grouped_gemm", "E": E, "M_total": M, "M_per_expert": M / E, "math_dtype": dtype}

    synthetic.write_run(
        folder,
        suite="ao-grouped",
        shapes=tuple(shapes),
        Ms=tuple(sorted({M for _, M in sizes.values()})),
        providers=names,
        baseline=names[0],
        challengers=("new_grouped",),
        machine=MI300X,
        latency=lambda cell: times[cell.layer, cell.provider],
        skip=lambda cell, round_: sizes[cell.layer][1] != cell.M,
        columns=columns,
        manifest={
            "planned_units": 3 * len(rows) * len(names),
            "providers": {name: NAMED[name] for name in names},
        },
        **STILL,
    )
    run = load_run(folder)
    if reference:
        return build_report(run, preset="three-way")
    view = View(analyze(run))
    sections = tuple(section for chapter in (takeaways, three_way) if (section := chapter(view)) is not None)
    return Report("two sides", (), sections, generator="rooflens test")
