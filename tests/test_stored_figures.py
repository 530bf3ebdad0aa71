"""The figures of the docs that follow from stored runs are what a script computes from them, and of today's kernels."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import stored_runs
from rooflens.kernels.identity import Code
from stored_figures import PARTS
from stored_timers import rows

ROOT = Path(__file__).parents[1]

FACTS = ROOT / "docs" / "measured-facts.md"
PAGES = sorted(path for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), stored_runs.RESULTS / "README.md"))


def passages(page: Path) -> Iterator[str]:
    """Paragraphs and list items, each in one line; rows of tables and code with what is around them."""
    before, code = "", ""
    for part in re.split(r"\n\s*\n|\n(?=- )", page.read_text("utf-8")):
        text = " ".join(part.split())
        if text.startswith("|"):
            yield from (f"{before} {' '.join(line.split())}" for line in part.splitlines())
        elif text.startswith(("```", "<!--")):
            code += text
        else:
            yield f"{before} {code} {text}" if code else text
            before, code = text, ""


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_the_docs_say_what_the_stored_runs_say_and_which_figures_are_not_of_today(part):
    found = [*passages(FACTS)]
    stored_runs.taken.clear()
    for figure in part():
        words = frozenset().union(*(stored_runs.marks(*taken) for taken in stored_runs.taken))
        said = [passage for passage in found if figure in passage]
        assert said, f"{figure} is not said"
        assert any(all(word in passage for word in words) for passage in said), f"{figure}: say {sorted(words)}"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_that_names_a_run_says_what_is_not_of_today(page):
    for passage in passages(page):
        for run in stored_runs.named(passage):
            missing = [word for word in sorted(stored_runs.marks(run)) if word not in passage]
            assert not missing, f"{run}: {missing} in {passage}"


def test_the_picture_of_the_readme_is_of_a_run_of_today():
    (image,) = re.findall(r"!\[[^]]*\]\(docs/images/gallery-(\w+)\.png\)", (ROOT / "README.md").read_text("utf-8"))
    (section,) = (one for one in (ROOT / "docs/gallery.md").read_text("utf-8").split("\n## ") if f"`{image}`" in one)
    (run,) = stored_runs.named(section)
    assert not stored_runs.marks(run)


@pytest.mark.parametrize(
    ("run", "provider", "words"),
    [
        ("h200-w4a16-models", "cuda_4bit", set()),
        ("h200-marlin", "cuda_4bit", {"earlier kernel"}),
        ("h200-marlin", "simt_4bit", set()),
        ("h200-4bit", "dequant_blas", {"event timer"}),
        ("h200-compare/head", "stock_triton", {"event timer", "earlier kernel"}),
    ],
)
def test_what_a_run_is_not_of_today(run, provider, words):
    assert stored_runs.marks(run, provider) == words


def test_a_kernel_that_changes_makes_its_runs_those_of_an_earlier_one(monkeypatch):
    """The whole chain: a stored run, and one more word in the source of its kernel."""
    read = stored_runs.code_of

    def edited(provider):
        code = read(provider)
        return Code(code.kernels, code.host, tuple((kind, f"{text} ;") for kind, text in code.sources), code.packages)

    monkeypatch.setattr(stored_runs, "code_of", edited)
    stored_runs._marks.cache_clear()
    try:
        assert stored_runs.marks("h200-w4a16-models", "cuda_4bit") == {"earlier kernel"}
        assert stored_runs.marks("h200-w4a16-models", "dequant_blas") == set()
    finally:
        stored_runs._marks.cache_clear()


def test_the_tables_on_timers_are_what_the_benchmarks_printed():
    text = FACTS.read_text("utf-8").splitlines()
    found = list(rows())
    assert len(found) == 11 + 5 + 6 + 8 + 7
    assert [row for row in found if row not in text] == []
