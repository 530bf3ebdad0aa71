"""Files are replaced whole or not at all; a full or read-only disk is one line."""

import dataclasses
import errno
import os
import re
import stat
from itertools import chain
from urllib.parse import unquote

import pytest
from rooflens.reports import write
from rooflens.reports.figures.chart import Data
from rooflens.reports.model import Section
from rooflens.reports.render.formats import FORMATS
from rooflens.reports.write import write_bytes, write_report
from rooflens.shapes.errors import RooflensError

from .handmade import figure, report


def test_writes_what_is_asked_for_and_names_it(tmp_path):
    page, text = tmp_path / "a" / "report.html", tmp_path / "report.md"
    written = write_report(report(), {"html": page, "markdown": text})
    assert written == [page, tmp_path / "figures/panels.svg", tmp_path / "figures/single.svg", text]
    assert all(path.stat().st_size > 500 for path in written)
    for image in written[1:3]:
        assert image.read_bytes().startswith(b"<svg ")


def test_the_numbers_of_a_figure_lie_beside_its_image(tmp_path):
    data = Data(("M", "time_s"), ((1, 1.25e-5), (8, None)))
    section = Section("f", "F", (dataclasses.replace(figure(), data=data), figure("single", 1)))
    written = write_report(dataclasses.replace(report(), sections=(section,)), {"markdown": tmp_path / "r.md"})
    names = [path.relative_to(tmp_path).as_posix() for path in written]
    assert names == ["figures/r-panels.svg", "figures/r-panels.csv", "figures/r-single.svg", "r.md"]
    assert written[1].read_text("utf-8") == "M,time_s\n1,1.25e-05\n8,\n"


def test_reports_in_one_folder_have_figures_of_their_own(tmp_path):
    written = [write_report(report(), {"markdown": tmp_path / name}) for name in ("report.md", "a (1).md", "b.md")]
    assert len({*chain(*written)}) == sum(map(len, written))
    for *images, text in written:
        linked = re.findall(r"\]\((figures/[^)]+)\)", text.read_text("utf-8"))
        assert {tmp_path / unquote(link) for link in linked} == {*images}


def test_text_and_json_too_and_in_ascii_all_but_the_page(tmp_path):
    files = {name: tmp_path / f"r.{name}" for name in FORMATS}
    written = write_report(report(), files, ascii_only=True)
    assert set(files.values()) <= set(written)
    assert "44.80×" in files["html"].read_text("utf-8")
    for name in ("markdown", "text", "json"):
        told = files[name].read_bytes()
        assert told.isascii()
        assert b"44.80x" in told


def test_readable_by_others_as_the_umask_says(tmp_path):
    write_bytes(tmp_path / "r", b"x")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "r").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_keeps_the_old_file_and_leaves_nothing_behind(tmp_path, monkeypatch, step):
    target = tmp_path / "report.html"
    target.write_bytes(b"old")

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(write.os, step, full)
    with pytest.raises(RooflensError) as caught:
        write_bytes(target, b"new")
    assert re.fullmatch(r".*report\.html.*No space left on device.*", str(caught.value))
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(RooflensError, match="cannot write"):
        write_bytes(target / "under a file", b"x")
