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


def test_a_specification_is_of_all_patterns_and_a_low_best_one_gets_a_note():
    """An H200 is known to reach 4199 GB/s: 87 % of what is published."""
    stored = (
        STORED
        + b"""bandwidth,dram,read,,3.55e12,byte/s,measured,read
bandwidth,dram,copy,,3.5e12,byte/s,measured,copy
bandwidth,dram,,,4.8e12,byte/s,spec,a data sheet
"""
    )
    h200 = Device(name="NVIDIA H200", arch="sm90")
    section = ceilings(view_of(parse_table(stored, CEILINGS, "ceilings.csv"), h200))
    found = {line[2].text: line[6] for line in section.blocks[0].rows if line[0].text == "bandwidth"}
    assert {name: cell.text for name, cell in found.items()} == {"read": "74%", "copy": "73%", "": ""}
    assert [name for name, cell in found.items() if cell.note] == ["read"]
    assert found["read"].note.startswith("15% below the least that is known of this device (rooflens calibrate on")
