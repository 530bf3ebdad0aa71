"""The figures of the docs that follow from stored runs are what a script computes from them, and of today's kernels."""

import re
from collections.abc import Iterator

import pytest
import stored_figures
from rooflens.kernels.identity import Code
from stored_figures import PAGES, ROOT, marks, named_figures, runs_in

NAMED = [*named_figures()]


def passages(text: str) -> Iterator[str]:
    """Paragraphs and list items, each in one line; rows of tables and code with what is around them."""
    before, code = "", ""
    without_names = re.sub(r"<!-- figures: .*?-->\n", "", text)
    for part in re.split(r"\n\s*\n|\n(?=- )", without_names):
        text = " ".join(part.split())
        if text.startswith("|"):
            yield from (f"{before} {' '.join(line.split())}" for line in part.splitlines())
        elif text.startswith(("```", "<!--")):
            code += text
        else:
            yield f"{before} {code} {text}" if code else text
            before, code = text, ""


@pytest.mark.slow
@pytest.mark.parametrize("named", NAMED, ids=lambda named: f"{named.function} {named.arguments[0]}")
def test_a_page_says_what_is_stored_and_what_of_it_is_not_of_today(named):
    words = named.marks()
    found = [*passages(named.text), *([named.text] if named.function == "printed" else ())]
    figures = [*named.figures()]
    assert figures
    for figure in figures:
        said = [passage for passage in found if figure in passage]
        assert said, f"{figure} is not said"
        assert any(all(word in passage for word in words) for passage in said), f"{figure}: say {sorted(words)}"


def test_every_function_is_named():
    assert {named.function for named in NAMED} == set(stored_figures.FUNCTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_that_names_a_run_says_what_is_not_of_today(page):
    for passage in passages(page.read_text("utf-8")):
        for run in runs_in(passage):
            missing = [word for word in sorted(marks(run)) if word not in passage]
            assert not missing, f"{run}: {missing} in {passage}"


def test_the_picture_of_the_readme_is_of_a_run_of_today():
    (image,) = re.findall(r"!\[[^]]*\]\(docs/images/gallery-(\w+)\.png\)", (ROOT / "README.md").read_text("utf-8"))
    (section,) = (one for one in (ROOT / "docs/gallery.md").read_text("utf-8").split("\n## ") if f"`{image}`" in one)
    (run,) = runs_in(section)
    assert not marks(run)


@pytest.mark.parametrize(
    ("run", "provider", "words"),
    [
        ("h200-marlin", "cuda_4bit", {"earlier kernel"}),
        ("h200-marlin", "marlin", set()),
        ("h200-mxfp8-moe", "dispatch_moe", set()),
    ],
)
def test_what_a_run_is_not_of_today(run, provider, words):
    assert marks(run, provider) == words


def test_what_changes_makes_runs_those_of_an_earlier_kernel_or_of_another_timer(monkeypatch):
    """The whole chain: a stored run, one more word in the source of its kernel, and another default timer."""
    read = stored_figures.code_of

    def edited(provider):
        code = read(provider)
        return Code(code.kernels, code.host, tuple((kind, f"{text} ;") for kind, text in code.sources), code.packages)

    monkeypatch.setattr(stored_figures, "code_of", edited)
    monkeypatch.setattr(stored_figures, "default_timer", lambda run: "graph")
    stored_figures._marks.cache_clear()
    try:
        assert marks("h200-w4a16-models", "cuda_4bit") == {"earlier kernel", "event timer"}
        assert marks("h200-w4a16-models", "dequant_blas") == {"event timer"}
    finally:
        stored_figures._marks.cache_clear()
