"""The chapter on the devices of one run: a row each, relative to their median, and not too many."""

import pytest
from rooflens.reports.sections.conditions.devices import devices

from ..analysis.several_devices import fleet, gpu, noisy, reading
from .planted import report_of, texts, view_of


def table_of(folder, *args, **options):
    section = devices(view_of(folder, **fleet(*args, **options)))
    assert section is not None
    (table,) = section.blocks
    return table


def test_a_row_per_device_relative_to_the_median_device(tmp_path):
    canary = [
        reading(minute, gemm_s * (1 + minute / 100), copy_s, process)
        for process, (gemm_s, copy_s) in enumerate(((1e-3, 2e-3), (1.05e-3, 2e-3), (1e-3, 1.94e-3)))
        for minute in range(3)
    ]
    entries = [gpu(0, [0, 3]), gpu(1, [1]), gpu(2, [2], host="node1")]
    table = table_of(tmp_path, entries, canary, lambda cell, round_: 1 if cell.layer == "o" else 3 * bool(round_))
    assert texts(table) == [
        ["host", "device", "UUID", "GEMM", "copy", "GEMM range", "copy range", "readings", "cells", "rounds",
         "restarts"],
        ["node0", "GPU 0", "GPU-8f6d2c10", "0.00", "0.00", "2.00", "0.00", "3", "2", "6", "1"],
        ["node0", "GPU 0", "GPU-8f6d2c11", "+5.00", "0.00", "2.00", "0.00", "3", "2", "6", "0"],
        ["node1", "GPU 0", "GPU-8f6d2c12", "0.00", "−3.00", "2.00", "0.00", "3", "0", "0", "0"],
    ]  # fmt: skip
    assert [column.unit for column in table.columns[3:7]] == ["%"] * 4
    assert table.rows[1][3].value == pytest.approx(0.05)
    assert table.stub == 3


def test_the_head_of_the_page_says_how_many_devices_and_two_parts_are_told_apart(tmp_path):
    several = report_of(tmp_path / "several", **fleet([gpu(0, [0]), gpu(1, [1])], [reading(n) for n in range(9)]))
    assert dict(several.facts)["measured on"] == "2 devices"
    assert {"Devices", "The devices over time"} <= {section.title for section in several.walk()}
    assert "measured on" not in dict(report_of(tmp_path / "one").facts)


def test_what_is_unknown_is_empty_and_said(tmp_path):
    entries = [{"processes": [0]}, {"processes": [1]}, {}]
    table = table_of(tmp_path, entries, [reading(0), reading(1), reading(0, process=5)])
    assert texts(table)[0][0] == "device"
    assert texts(table)[2] == ["GPU", "", "", "", "", "0", "0", "0", "0"]
    assert "1 device has too few readings to distinguish slow from noisy." in table.reading
    assert table.reading.endswith("1 more device measured too; run.json does not say what.")


@pytest.mark.parametrize("entries", [[gpu(0, [0])], [{"uuid": "A"}, {"uuid": "B"}]])
def test_no_chapter_where_there_is_one_device_or_none_is_told_apart(tmp_path, entries):
    view = view_of(tmp_path, **fleet(entries, [reading(0), reading(1)]))
    assert devices(view) is None


def test_of_a_thousand_devices_those_that_deviate_most_are_shown(tmp_path):
    count, odd = 1000, {17: 1.08, 400: 0.93, 803: 1.06}
    canary = noisy([odd.get(number, 1.0) for number in range(count)], 3, 0.003)
    entries = [gpu(0, [number], uuid=f"{number:08d}", host=f"n{number // 8}") for number in range(count)]
    view = view_of(tmp_path, **fleet(entries, canary))
    (table,) = devices(view).blocks
    assert len(table.rows) == 24
    assert [row[2].text for row in table.rows[:3]] == ["GPU-00000017", "GPU-00000400", "GPU-00000803"]
    assert table.reading.startswith("24 of 1000 devices, those that deviate most first.")
    (warning,) = [one for one in view.analysis.warnings if one.startswith("devices differ")]
    assert "longer on n2 GPU-00000017 than on n50 GPU-00000400 (slowest and fastest of 1000)" in warning


def test_architectures_are_named_where_there_are_several(tmp_path):
    entries = [gpu(0, [0]), gpu(1, [1], arch="gfx950")]
    table = table_of(tmp_path, entries, [reading(0), reading(0, 3e-3, process=1)])
    assert [row[3].text for row in table.rows] == ["sm90", "gfx950"]
    assert [row[4].text for row in table.rows] == ["0.00", "0.00"]
