"""`rooflens.report`: from Python, the files that the command writes."""

import pytest
import rooflens
from rooflens.cli.main import main
from rooflens.shapes.errors import UsageError

from ..analysis.synthetic import write_run

TOY = {"shapes": (("toy", "up", 512, 2048),), "Ms": (1, 16), "samples": 4}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_run(tmp_path / "runs" / "toy", **TOY)


def test_a_loaded_run_a_folder_and_a_name_have_one_report(folder, tmp_path):
    assert main(["report", "toy", "-o", "typed.md", "-o", "comment=typed.txt"]) == 0
    for number, run in enumerate((rooflens.load(folder), folder, "toy", "latest")):
        files = (tmp_path / f"{number}.json", tmp_path / f"{number}.md", f"comment={number}.txt")
        assert tmp_path / f"{number}.md" in rooflens.report(run, *files)
        assert (tmp_path / f"{number}.txt").read_text() == (tmp_path / "typed.txt").read_text()
        assert (tmp_path / f"{number}.json").read_text() == (tmp_path / "0.json").read_text()
    assert not list(folder.glob("report*"))


def test_what_cannot_be_reported_is_one_line(folder):
    with pytest.raises(UsageError, match="--challenger is for the report of one run"):
        rooflens.report("toy", "r.md", against=rooflens.load(folder), challengers="simt_4bit")
    with pytest.raises(UsageError, match=r"odd=r: end it with .html, .md, .txt, .json, .parquet, or write FORMAT=FILE"):
        rooflens.report(folder, "odd=r")
    for odd in (None, 3, [folder]):
        for call in (rooflens.load, rooflens.report):
            with pytest.raises(UsageError, match="is no run"):
                call(odd)
        with pytest.raises(UsageError, match="end it with"):
            rooflens.report(folder, odd)
    with pytest.raises(UsageError, match="unknown argument 'basline': did you mean baseline"):
        rooflens.report(folder, basline="simt_4bit")
