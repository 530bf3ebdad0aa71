"""The device table has no fault; wrong entries of public tables, each patched into its row, break a law."""

from pathlib import Path

import pytest
import rooflens.shapes

from ..csv_files import read_rows
from .device_laws import RATES, faults

ROWS = {row["device"]: row for row in read_rows(Path(rooflens.shapes.__file__).parent / "devices.csv")}
ERRORS = read_rows(Path(__file__).with_name("known_spec_errors.csv"))
"""Wrong entries that were found in public tables: who printed what, and why it is wrong."""
POSSIBLE = {("AMD Radeon RX 9070 XT", "mem_bw_gbs")}
"""Wrong, but a bandwidth that such memory can have."""


def named(found, field):
    return [fault for fault in found if fault.startswith(f"{field} = ")]


@pytest.mark.parametrize("device", ROWS)
def test_the_shipped_rows_have_no_fault(device):
    assert faults(ROWS[device]) == []


def test_there_are_as_many_devices_and_errors_as_were_collected():
    assert (len(ROWS), len(ERRORS)) == (29, 32)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{error['device']} {error['field']} {error['printed']}")
def test_a_known_wrong_entry_is_refused_and_names_its_field_alone(error):
    row, field = ROWS[error["device"]], error["field"]
    assert row[field] != error["printed"]
    found = faults({**row, field: error["printed"]})
    assert named(found, field) == found
    assert (found == []) is ((error["device"], field) in POSSIBLE)
    if error["correct"]:
        assert named(faults({**row, field: error["correct"]}), field) == []


@pytest.mark.parametrize("device", ROWS)
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_no_matrix_rate_of_any_device_may_be_doubled_or_halved(device, factor):
    row = ROWS[device]
    rates = [name for name in row if name.endswith("_tflops") and row[name] and name != "fp32_tflops"]
    assert len(rates) >= 3 or row["arch"] == "sm_70"  # whose matrix units know fp16 only: nothing else is to compare
    for name in rates:
        assert named(faults({**row, name: str(float(row[name]) * factor)}), name), name


@pytest.mark.parametrize("device", ROWS)
def test_a_type_without_a_unit_has_no_rate(device):
    row = ROWS[device]
    arch = row["arch"].replace("_", "")
    for name in ("tf32", "fp8", "mxfp8", "mxfp4"):
        found = named(faults({**row, f"{name}_tflops": row["fp16_tflops"]}), f"{name}_tflops")
        assert found, name  # either there is no such unit, or it does not run at the bf16 rate
        assert ("has no unit" in found[0]) is (name not in RATES[arch])
    assert {name for name in RATES[arch] if not row[f"{name}_tflops"]} == set()


@pytest.mark.parametrize(
    ("device", "field", "value"),
    [
        ("NVIDIA A100-SXM4-80GB", "mem_bw_gbs", "4078"),  # twice: both directions counted
        ("NVIDIA H200 SXM", "mem_bw_gbs", "4.8"),  # TB/s under GB/s
        ("NVIDIA H100 SXM", "mem_type", "HBM9"),
        ("AMD Instinct MI300X", "l2_mib", "4"),  # of one XCD
        ("AMD Instinct MI300X", "llc_mib", ""),
        ("NVIDIA H100 SXM", "llc_mib", "50"),  # L2 a second time
        ("AMD Instinct MI250X (package, 2 GCD)", "l2_mib", "8"),
        ("NVIDIA L4", "compute_units", "160"),
        ("NVIDIA L4", "arch", "sm_75"),
    ],
)
def test_planted_faults(device, field, value):
    assert named(faults({**ROWS[device], field: value}), field)
