"""Numbers, columns and devices are read as people mean them."""

import pytest
from rooflens.analysis.imports.columns import Override
from rooflens.analysis.imports.devices import find_device
from rooflens.analysis.imports.printed import read_printed
from rooflens.analysis.imports.words import dtypes_in
from rooflens.plugins.audit.evidence.assumptions import Assumptions
from rooflens.shapes.errors import UsageError

from .helpers import audited


@pytest.mark.parametrize(
    "text, value, unit",
    [
        ("+15.11%", 15.11, "%"),
        ("−8.79%", -8.79, "%"),
        ("3.64×", 3.64, "x"),
        ("~1.0×*", 1.0, "x"),
        ("1,234.5", 1234.5, ""),
        ("+9.15%²", 9.15, "%"),
        ("7.20 us", 7.2, "us"),
        ("**645 TFLOPS**", 645, "tflops"),
        ("1e-3", 1e-3, ""),
        ("80.0±0.2 us", 80.0, "us"),
        ("80.0 us +/- 1.5 us", 80.0, "us"),
        ("0.995 (same)", 0.995, ""),
        ("2.00x ✓⭐", 2.0, "x"),
    ],
)
def test_printed_numbers(text, value, unit):
    found = read_printed(text)
    assert (found.value, found.unit) == (pytest.approx(value), unit)


@pytest.mark.parametrize(
    "text", ["", "qkv", "FAIL", "4096x4096", "1.2.3", "5 apples", "M=64", "80.0 → 64.0", "(4096)", "1 - 2"]
)
def test_texts_that_are_no_numbers(text):
    assert read_printed(text) is None


def test_what_a_number_stands_for():
    assert read_printed("1.39").span == pytest.approx((1.385, 1.395))
    assert read_printed("~60%").span == pytest.approx((58.0, 62.0))
    assert read_printed("1.50").within(0.1) == pytest.approx((1.45, 1.55))


def roles(header, row, **more):
    result = audited(f"{header}\n{row}\n{row}\n", name="t.csv", **more)
    return [
        (str(column.role), column.side, column.pass_, column.sides or column.detail)
        for column in result.sheets[0].columns
    ]


@pytest.mark.parametrize(
    "name, cell, role",
    [
        ("Old (ms)", "1.5", ("time", "old", "", "")),
        ("fwd_main_ms", "1.5", ("time", "main", "fwd", "")),
        ("Fwd+Bwd (ms)", "1.5", ("time", "", "step", "")),
        ("Latency", "1.5 us", ("time", "", "", "")),
        ("New TFLOPS", "100", ("rate", "new", "", "")),
        ("TFLOP/s", "100", ("rate", "", "", "")),
        ("GB/s", "100", ("bandwidth", "", "", "")),
        ("Speedup", "1.5x", ("ratio", "", "", "")),
        ("New/Old", "1.5x", ("ratio", "new/old", "", "new/old")),
        ("Speedup", "+5.0%", ("change", "", "", "")),
        ("Bwd TFLOPS gain", "+5.0%", ("change", "", "bwd", "gain")),
        ("Time reduction", "+5.0%", ("change", "", "", "reduction")),
        ("Δ comb", "+5.0%", ("change", "", "step", "")),
        ("delta_tflops", "5.0", ("difference", "", "", "")),
        ("% of peak", "50", ("share of peak", "", "", "")),
        ("MFU", "0.5", ("share of peak", "", "", "")),
        ("p75_pct", "+5.0", ("statistic", "", "", "p75")),
        ("Flops", "1024", ("FLOPs", "", "", "")),
        ("TestID", "12", ("id", "", "", "")),
        ("notes", "none", ("label", "", "", "")),
    ],
)
def test_columns_by_their_headers(name, cell, role):
    assert roles(f"M,N,K,{name}", f"64,64,64,{cell}")[-1] == role


def test_sizes_by_their_headers():
    (sheet,) = audited("E,tokens,N,K,us\n8,64,32,16,1.5\n8,64,32,16,1.5\n", name="t.csv").sheets
    assert sheet.sizes(0) == {"E": 8, "M": 64, "N": 32, "K": 16}
    assert sheet.m_is == "total"
    (sheet,) = audited("m,n,k,us\n64,32,16,1.5\n", name="t.csv").sheets
    assert sheet.sizes(0) == {"M": 64, "N": 32, "K": 16}
    (sheet,) = audited('"Shape (N, K, M)",us\n"(32, 16, 64)",1.5\n', name="t.csv").sheets
    assert sheet.sizes(0) == {"M": 64, "N": 32, "K": 16}
    (sheet,) = audited("N,K,M=64\n32,16,1.5x\n", name="t.csv").sheets
    assert sheet.sizes(0, sheet.columns[-1]) == {"M": 64, "N": 32, "K": 16}


def test_sizes_that_the_title_gives():
    (sheet,) = audited("### N=64, K=7168\n\n| M | us |\n|-|-|\n| 1 | 3.5 |\n| 2 | 3.6 |\n").sheets
    assert sheet.sizes(1) == {"M": 2, "N": 64, "K": 7168}
    (sheet,) = audited("### N=64 or N=128\n\n| M | us |\n|-|-|\n| 1 | 3.5 |\n| 2 | 3.6 |\n").sheets
    assert sheet.sizes(1) == {"M": 2}


def test_three_numbers_are_sizes_only_where_a_header_says_so():
    for header, sizes in (
        ("shape", {"M": 64, "N": 32, "K": 16}),
        ("M×K×N", {"M": 64, "K": 32, "N": 16}),
        ("input_shape", {}),
    ):
        (sheet,) = audited(f"{header};us\n64x32x16;1.5\n", name="t.csv").sheets
        assert sheet.sizes(0) == sizes


def test_types_of_operands_by_any_spelling():
    assert dtypes_in("torch.bfloat16 and torch.float8_e4m3fnuz, NVFP4") == ["bf16", "fp8", "mxfp4"]
    flops = 2 * 4096**3
    text = "M,N,K,dtype,quantDtype,us\n4096,4096,4096,torch.bfloat16,{},{:.3f}\n"
    for weights, rules in (("torch.float8_e4m3fnuz", []), ("none", ["above-peak"])):
        found = audited(text.format(weights, flops / 2000e12 * 1e6), "MI300X", name="t.csv").findings
        assert [finding.rule for finding in found] == rules


def test_the_convention_of_m_follows_from_time_and_rate():
    flops = 2 * 8 * 4096**3
    each, whole = (f"E,M,N,K,ms,TFLOPS\n8,4096,4096,4096,5.000,{one / 5e-3 / 1e12:.1f}\n" for one in (flops, flops / 8))
    assert audited(each, name="t.csv").sheets[0].m_is == "per_expert"
    assert audited(whole, name="t.csv").sheets[0].m_is == "total"


def test_the_user_says_what_a_column_is():
    text = "M,N,K,A,B\n64,64,64,1.5,2\n"
    found = roles("M,N,K,A,B", "64,64,64,1.5,2", columns=["time_us:old=A", "tflops=B"])
    assert found[-2:] == [("time", "old", "", ""), ("rate", "b", "", "")]
    with pytest.raises(UsageError, match="unknown column 'C'"):
        audited(text, name="t.csv", columns=["time_us=C"])
    with pytest.raises(UsageError, match="did you mean time_us"):
        Override.parse("time_uss=A")
    with pytest.raises(UsageError, match="write ROLE=NAME"):
        Override.parse("time_us")


def test_rows_that_sum_others_up_are_no_cases():
    text = "| M | N | K | us |\n|-|-|-|-|\n| 64 | 64 | 64 | 1.5 |\n| 32 | 64 | 64 | 2.5 |\n| mean | | | 2.0 |\n"
    (sheet,) = audited(text).sheets
    assert len(sheet) == 2


@pytest.mark.parametrize(
    "name, device",
    [
        ("MI300X", "AMD Instinct MI300X"),
        ("mi350x", "AMD Instinct MI350X"),
        ("H200", "NVIDIA H200 SXM"),
        ("A100", "NVIDIA A100-SXM4-80GB"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("4090", "NVIDIA GeForce RTX 4090"),
        ("B200", "NVIDIA B200 (HGX SXM)"),
        ("gfx1201", None),
        ("sm_80", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
    ],
)
def test_devices_by_short_names(name, device):
    if device is None:
        with pytest.raises(UsageError, match="may be any of"):
            find_device(name)
    else:
        assert find_device(name).name == device


def test_a_device_that_is_not_there():
    with pytest.raises(UsageError, match=r"H100 SXM.*H100 PCIe"):
        find_device("H100")


def test_peaks_of_a_setting():
    device = find_device("MI300X")
    assert Assumptions(device).peak() == (2614.9e12, "fp8")
    assert Assumptions(device, "bf16").peak() == (1307.4e12, "bf16")
    assert Assumptions(device, "fp8").peak("bf16") == (1307.4e12, "bf16")
    assert Assumptions().peak() is None
    with pytest.raises(UsageError, match="no published mxfp4 rate"):
        Assumptions(device, "mxfp4")
    for name in ("fp4", "nvfp4"):
        assert Assumptions(find_device("B200"), name).peak() == (9000e12, "mxfp4")
    assert Assumptions(find_device("B300"), "nvfp4").peak() == (13500e12, "mxfp4")
    assert Assumptions(find_device("MI350X"), "fp4").peak() == (9227.5e12, "mxfp4")
    for device in ("MI350X", "MI300X"):
        with pytest.raises(UsageError, match="no published nvfp4 rate"):
            Assumptions(find_device(device), "nvfp4")
    with pytest.raises(UsageError, match="unknown dtype"):
        Assumptions(device, "bf17")
    with pytest.raises(UsageError, match="unknown pass"):
        Assumptions(device, pass_="forth")


def steps(*cells):
    (sheet,) = audited("\n".join(["case;ms", *(f"{at};{cell}" for at, cell in enumerate(cells))]), name="t.csv").sheets
    return [sheet.columns[-1].step(row) for row in range(len(cells))]


def test_digits_are_those_of_the_cell_where_decimals_differ():
    """`%g` prints six digits and drops zeros: 102786 stands for 102785.5 to 102786.5 beside 69313.7 too."""
    assert steps("1.50", "1.25", "2.00") == [0.01, 0.01, 0.01]
    assert steps("59099.9", "102786", "69313.7", "8025.95") == pytest.approx([0.1, 1, 0.1, 0.01])
    assert steps("1.391", "1.27", "1.442", "1.553", "1.618") == pytest.approx([0.001] * 5)  # a zero was dropped
    assert steps("1.5", "2", "1.25", "3.1") == pytest.approx([0.1, 1, 0.01, 0.1])  # rounded by hand


def test_speedups_of_numbers_printed_with_percent_g():
    """102786.49 / 11000.06 and 69313.72 / 59099.88, each with six digits."""
    header = "case,old (ms),new (ms),speedup\n"
    rows = "a,102786,11000.1,9.34418\nb,69313.7,59099.9,1.17282\n"
    assert not audited(header + rows, name="t.csv").findings
    assert [one.line for one in audited(header + rows.replace("1.17282", "1.17382"), name="t.csv").findings] == [3]
