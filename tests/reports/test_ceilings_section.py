"""The table of ceilings: every kind in its unit, measured ones beside what is published or derived from that."""

from types import SimpleNamespace

from rooflens.analysis.frames.tables import parse_table
from rooflens.reports.sections.limits.ceilings import ceilings
from rooflens.shapes.device import Device
from rooflens.shapes.run_folder.columns import CEILINGS


def view_of(table, device=None):
    run = SimpleNamespace(device=device or Device())
    return SimpleNamespace(run=run, analysis=SimpleNamespace(ceilings=table))


STORED = b"""ceiling,level,pattern,dtype,value,unit,kind,source
vector,,fma,,33.0e12,op/s,measured,chains
vector,,integer,,16.6e12,op/s,measured,chains
launch,,tile warm,,3e-06,s,measured,a tile
clock,,boost,,1.83e9,Hz,spec,a data sheet
vector,,fma,,33.5e12,op/s,derived,fp32 peak / 2
"""


def test_vector_rates_stand_beside_the_derived_one_of_their_pattern_and_the_clock_alone():
    table = parse_table(STORED, CEILINGS, "ceilings.csv")
    section = ceilings(view_of(table))
    assert not any(cell.note for line in section.blocks[0].rows for cell in line)
    lines = [[cell.text for cell in line] for line in section.blocks[0].rows]
    assert [(line[0], line[2], line[4], line[5], line[6]) for line in lines] == [
        ("vector", "fma", "33.0 Top/s", "measured", "99%"),
        ("vector", "integer", "16.6 Top/s", "measured", ""),
        ("launch", "tile warm", "3.00 µs", "measured", ""),
        ("clock", "boost", "1.830 GHz", "published", ""),
        ("vector", "fma", "33.5 Top/s", "derived", ""),
    ]


FP8 = b"""ceiling,level,pattern,dtype,value,unit,kind,source
bandwidth,dram,copy,,3.5e12,byte/s,measured,copy
bandwidth,dram,read,,%s,byte/s,measured,read
bandwidth,llc,read,,3.5e12,byte/s,measured,read
peak,,gemm,fp8,%s,FLOP/s,measured,torch._scaled_mm
peak,,gemm,fp8,1978.9e12,FLOP/s,spec,a data sheet
"""


def test_a_best_pattern_below_all_known_measurements_gets_a_note():
    """An H200 that is known to reach 1326 TFLOPS in FP8 and 4199 GB/s: 67 % and 87 % of what is published."""
    h200 = Device(name="NVIDIA H200", arch="sm90")
    usual = parse_table(FP8 % (b"4.4e12", b"1326.2e12"), CEILINGS, "ceilings.csv")
    low = parse_table(FP8 % (b"3.55e12", b"1100e12"), CEILINGS, "ceilings.csv")
    assert not [line[6].note for line in ceilings(view_of(usual, h200)).blocks[0].rows if line[6].note]
    noted = {line[0].text: line[6].note for line in ceilings(view_of(low, h200)).blocks[0].rows if line[6].note}
    assert list(noted) == ["bandwidth", "peak"]
    assert noted["peak"].startswith(
        "17% below the least that is known of this device (rooflens calibrate on an H200 (not stored))"
    )
    assert not [line[6].note for line in ceilings(view_of(low)).blocks[0].rows if line[6].note]


def test_a_specification_without_a_pattern_is_of_all_patterns():
    stored = (
        STORED
        + b"""bandwidth,dram,read,,4.4e12,byte/s,measured,read
bandwidth,dram,copy,,4.2e12,byte/s,measured,copy
bandwidth,dram,,,4.8e12,byte/s,spec,a data sheet
"""
    )
    section = ceilings(view_of(parse_table(stored, CEILINGS, "ceilings.csv")))
    shares = {line[2].text: line[6].text for line in section.blocks[0].rows if line[0].text == "bandwidth"}
    assert shares == {"read": "92%", "copy": "88%", "": ""}
