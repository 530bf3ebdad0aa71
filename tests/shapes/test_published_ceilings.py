"""Published measurements, in base units and in order; their caveats say why they are no ceilings."""

from pathlib import Path

import pandas as pd
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


def test_measurements_of_ours_are_the_highest_or_the_lowest_that_are_stored_as_they_say():
    results = Path(__file__).parents[2] / "docs" / "results"
    stored = pd.concat([pd.read_csv(path).assign(run=path.parent.name) for path in results.glob("h200-*/ceilings.csv")])
    ends = stored.query("kind == 'measured'").sort_values("value").groupby(["source", "dtype"], dropna=False)
    both = pd.concat([ends.head(1).assign(end="lowest"), ends.tail(1).assign(end="highest")])
    found = {(f"rooflens docs/results/{one.run}", f"{one.value:.3g}", one.end) for one in both.itertuples()}
    cited = [one for one in published_ceilings("NVIDIA H200 SXM") if "docs/results" in one.source]
    assert cited
    assert {(one.source, f"{one.value:.3g}", one.caveat.split()[0]) for one in cited} <= found
