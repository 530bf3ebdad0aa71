"""The roofline draws every level of memory and the peaks of every type that is multiplied, each with its kind."""

import pytest
from rooflens.reports.sections.limits.roofline import roofline

from .planted import SMALL, figures_of, records, synthetic, view_of

PLANTED = {
    "machine": synthetic.H200, "shapes": SMALL, "Ms": (1, 16, 256), "rounds": 2, "samples": 3,
    "providers": ("simt_4bit", "dequant_blas"),
}  # fmt: skip


def figure_of(folder, **options):
    (found,) = figures_of(roofline(view_of(folder, **(PLANTED | options)))).values()
    return found


def test_roofs_are_measured_published_and_at_the_clock_level_by_level(tmp_path):
    """A clock of 1.464 GHz is 0.8 of the published 1.83 GHz."""
    figure = figure_of(tmp_path / "run", telemetry=lambda cell, round_: [{"clock_hz": 1.464e9}])
    roofs = {roof.label: roof for roof in figure.charts[0].roofs}
    assert set(roofs) == {
        "dram read 4300.0 GB/s, measured",
        "llc read 7500.0 GB/s, measured",
        "dram 4800.0 GB/s, published",
        "bf16 GEMM 750.0 TFLOPS, measured",
        "bf16 GEMM 989.0 TFLOPS, published",
        "bf16 GEMM 791.2 TFLOPS, at the observed clock",
    }
    kinds = {label: (roof.measured, roof.observed) for label, roof in roofs.items()}
    assert kinds["dram 4800.0 GB/s, published"] == (False, False)
    assert kinds["bf16 GEMM 791.2 TFLOPS, at the observed clock"] == (False, True)
    slope = roofs["dram read 4300.0 GB/s, measured"]
    assert slope.y0 / slope.x0 == pytest.approx(4.3e12)
    assert slope.y1 == pytest.approx(750e12)  # it ends at the ridge
    assert roofs["bf16 GEMM 750.0 TFLOPS, measured"].x0 == pytest.approx(750e12 / 7.5e12)


def test_a_provider_that_multiplies_in_another_type_has_its_roof(tmp_path):
    figure = figure_of(
        tmp_path / "run",
        columns=lambda cell, round_: {"math_dtype": "fp32" if cell.provider == "simt_4bit" else "bf16"},
        drift=lambda round_: 2.0,  # or simt_4bit would beat the planted fp32 peak, and raise it
    )
    labels = [roof.label for roof in figure.charts[0].roofs]
    assert "fp32 GEMM 50.0 TFLOPS, measured" in labels
    assert "bf16 GEMM 750.0 TFLOPS, measured" in labels
    low = next(roof for roof in figure.charts[0].roofs if roof.label.startswith("fp32 GEMM 50.0"))
    assert low.x0 == pytest.approx(50e12 / 7.5e12)  # its own ridge with the steepest roof


def test_the_data_have_every_cell_and_every_roof(tmp_path):
    figure = figure_of(tmp_path / "run")
    cells = [row for row in records(figure) if row["roof_value"] is None]
    assert len(cells) == 2 * 3 * 3
    one = next(row for row in cells if (row["N"], row["M"], row["provider"]) == (1024, 16, "simt_4bit"))
    assert one["flops_per_s"] == pytest.approx(2 * 16 * 1024 * 1024 / one["time_s"])
    roofs = {row["provider"]: row["roof_value"] for row in records(figure) if row["roof_value"] is not None}
    assert roofs["dram read bandwidth (measured)"] == 4.3e12
    assert len(roofs) == len(figure.charts[0].roofs)
