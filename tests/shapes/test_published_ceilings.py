"""Published measurements, in base units and in order; their caveats say why they are no ceilings."""

import csv
from pathlib import Path

from rooflens.shapes import device
from rooflens.shapes.published_ceilings import published_ceilings


def test_rates_of_a_device_in_base_units_the_highest_of_a_kind_first():
    found = published_ceilings("AMD Instinct MI300X")
    assert [one.value for one in found if one.ceiling == "peak" and one.dtype == "bf16"] == [708e12, 668.4e12]
    assert max(one.value for one in found if one.ceiling == "bandwidth") == 4260e9
    assert {one.unit for one in found} == {"byte/s", "FLOP/s"}
    assert all(one.source and one.device == "AMD Instinct MI300X" for one in found)


def test_assumed_fractions_are_no_measurements():
    assert all(one.value > 1e11 for spec in device.specs() for one in published_ceilings(spec.name))
    assert published_ceilings("any") == ()


def test_measurements_of_ours_are_in_a_stored_run_or_say_that_they_are_not():
    root = Path(__file__).parents[2]
    known = published_ceilings("NVIDIA H200 SXM")
    cited = {word for one in known for word in one.source.split() if "docs/results" in word}
    assert cited
    for run in cited:
        with (root / run / "ceilings.csv").open() as file:
            stored = {f"{float(row['value']):.3g}" for row in csv.DictReader(file)}
        values = [one.value for one in known if one.source.endswith(run)]
        assert all(f"{value:.3g}" in stored for value in values), run
