"""Every kind of report in every format is what it was: golden/KIND.FORMAT. `make golden` writes them; look at them."""

import json
import os
import sys
from pathlib import Path

import pytest
from rooflens.reports.presets import OF_A_RUN, OF_TWO_VERSIONS, PRESETS
from rooflens.reports.render.formats import FORMATS as RENDERERS

from ..environments import ROOT, printed_by
from .golden_subjects import FORMATS, differences, rendered, report_of, write_runs
from .pages import nearly_equal_definitions

GOLDEN = Path(__file__).with_name("golden")
WRITE = os.environ.get("ROOFLENS_GOLDEN") == "write"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    write_runs(folder)
    return folder


@pytest.fixture(scope="module", params=list(PRESETS))
def named_report(request, folder):
    return request.param, report_of(folder, request.param)


@pytest.mark.parametrize("form", FORMATS)
def test_golden(named_report, form):
    preset, report = named_report
    file, found = GOLDEN / f"{preset}.{form}", rendered(report, form)
    if WRITE:
        file.write_text(found, encoding="utf-8")
        pytest.skip(f"wrote {file.name}")
    golden = file.read_text("utf-8")
    if form == "json":
        assert not differences(json.loads(found), json.loads(golden))
    else:
        assert found.splitlines() == golden.splitlines()


def test_no_two_definitions_of_a_chapter_are_nearly_equal(named_report):
    assert nearly_equal_definitions(named_report[1]) == []


def test_no_golden_file_is_left_over():
    assert {path.name for path in GOLDEN.iterdir()} == {f"{preset}.{form}" for preset in PRESETS for form in FORMATS}


def test_the_goldens_are_small_and_few_chapters_stand_open():
    assert all(len(preset.chapters) <= 9 for preset in PRESETS.values())
    assert sum(path.stat().st_size for path in GOLDEN.iterdir()) < 1 << 20


HASHES = """
import hashlib, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.reports.golden_subjects import report_of
from rooflens.reports.render.formats import FORMATS
from rooflens.reports.write import write_report
folder, out = Path(sys.argv[2]), Path(sys.argv[3])
for preset in sys.argv[4:]:
    written = write_report(report_of(folder, preset), {name: out / f"{preset}.{name}" for name in FORMATS})
    for path in written:
        print(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
"""


@pytest.mark.slow
def test_the_same_bytes_in_another_process(folder, tmp_path):
    """Sets have another order in each: the hash of a text is salted."""
    presets = [next(iter(OF_A_RUN)), next(iter(OF_TWO_VERSIONS))]
    command = (sys.executable, "-c", HASHES, ROOT, folder)
    told = [
        printed_by(*command, tmp_path / seed, *presets, env=os.environ | {"PYTHONHASHSEED": seed}, check=True).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert told[0].count(".svg") >= 4
    assert {f"{preset}.{name}" for preset in presets for name in RENDERERS} <= set(told[0].split())
