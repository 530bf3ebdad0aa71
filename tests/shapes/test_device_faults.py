"""The shipped table has no fault; 49 wrong entries of public tables, each patched into its row, are refused by name."""

import csv
from pathlib import Path

import pytest
import rooflens.shapes
from rooflens.shapes.device_faults import RATES, check, faults, faults_by_law, known_errors
from rooflens.shapes.errors import UsageError

TABLE = Path(rooflens.shapes.__file__).parent / "devices.csv"


def shipped():
    with TABLE.open(newline="") as file:
        return {row["device"]: row for row in csv.DictReader(file)}


ROWS = shipped()
KNOWN_BY_NAME_ONLY = {
    ("AMD Instinct MI300X", "fp8_measured"),
    ("AMD Instinct MI325X", "fp16_measured"),
    ("AMD Instinct MI325X", "fp8_measured"),
    ("AMD Instinct MI350X", "llc_bw"),
    ("AMD Instinct MI350X", "bf16_empirical_roof"),
    ("AMD Radeon RX 9070 XT", "mem_bw_gbs"),
}
"""Wrong, but possible: a rate below the peak, a bandwidth that such memory can have."""


def named(found, field):
    return [fault for fault in found if fault.startswith(f"{field} = ")]


@pytest.mark.parametrize("device", ROWS)
def test_the_shipped_rows_have_no_fault(device):
    assert faults(ROWS[device]) == []


def test_there_are_as_many_devices_and_errors_as_were_collected():
    assert len(ROWS) == 29
    assert len(known_errors()) == 49


@pytest.mark.parametrize("error", known_errors(), ids=lambda error: f"{error.device} {error.field} {error.printed}")
def test_a_known_wrong_entry_is_refused_and_names_its_field_alone(error):
    row = {**ROWS[error.device], error.field: error.printed}
    found = faults(row)
    assert named(found, error.field) == found != []
    assert any(error.who in fault for fault in found)
    by_law = named(faults_by_law(row), error.field)
    assert (by_law == []) is ((error.device, error.field) in KNOWN_BY_NAME_ONLY)


# of mem_bw_measured the list gives the published peak, which no measurement reaches
CORRECTED = [one for one in known_errors() if one.correct and one.field != "mem_bw_measured"]


@pytest.mark.parametrize("error", CORRECTED, ids=lambda error: f"{error.device} {error.field}")
def test_the_correct_value_is_no_fault(error):
    assert named(faults({**ROWS[error.device], error.field: error.correct}), error.field) == []


@pytest.mark.parametrize("device", ROWS)
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_no_matrix_rate_of_any_device_may_be_doubled_or_halved(device, factor):
    row = ROWS[device]
    rates = [name for name in row if name.endswith("_tflops") and row[name] and name != "fp32_tflops"]
    assert len(rates) >= 3 or row["arch"] == "sm_70"  # whose matrix units know fp16 only: nothing else is to compare
    for name in rates:
        assert named(faults({**row, name: str(float(row[name]) * factor)}), name), name


@pytest.mark.parametrize("device", [name for name, row in ROWS.items() if row["compute_units"]])
def test_a_row_that_is_wrong_as_a_whole_does_not_close(device):
    row = ROWS[device]
    sparse = {name: str(2 * float(row[name])) for name in row if name.endswith("_tflops") and row[name]}
    assert {fault.partition("_tflops")[0] for fault in faults({**row, **sparse})} == {
        name.removesuffix("_tflops") for name in sparse
    }


@pytest.mark.parametrize("device", ROWS)
def test_a_type_without_a_unit_has_no_rate(device):
    row = ROWS[device]
    arch = row["arch"].replace("_", "")
    for name in ("tf32", "fp8", "mxfp8", "mxfp4"):
        found = named(faults_by_law({**row, f"{name}_tflops": row["fp16_tflops"]}), f"{name}_tflops")
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
    assert named(faults_by_law({**ROWS[device], field: value}), field)


def test_a_table_without_buses_is_held_against_the_time_to_read_all_memory():
    row = {**ROWS["NVIDIA L4"], "mem_type": "", "mem_bus_bits": "", "mem_bw_gbs": "3350"}
    assert "24 GiB would be read in 7.69 ms" in faults_by_law(row)[0]


def test_the_shipped_table_is_checked_by_default_and_a_file_by_its_path(tmp_path):
    assert check() == {device: [] for device in ROWS}
    file = tmp_path / "mine.csv"
    file.write_text(
        "device,arch,compute_units,boost_mhz,bf16_tflops\nMine,sm90,132,1830,1979\nYours,sm90,132,1830,989\n"
    )
    found = check(file)
    assert found["Yours"] == []
    assert "twice that is the rate of sparse" in named(found["Mine"], "bf16_tflops")[0]
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())  # the mark that spreadsheets put before UTF-8
    assert check(file) == found


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot read"), ("device,cores\nx,1\n", "'arch' is missing"), (b"\xff", "not a text file in UTF-8")],
)
def test_what_is_no_device_table_is_refused(tmp_path, content, words):
    file = tmp_path / "table.csv"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=words):
        check(file)
