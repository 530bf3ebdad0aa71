"""The documentation site, built as `make site` does and read from the disk by a browser that has no network."""

import re
import sys
from importlib.util import find_spec

import pytest

from .conftest import browser_path
from .environments import ROOT, call

pytestmark = pytest.mark.slow
if find_spec("sphinx") is None:
    pytest.skip("sphinx is not installed: pip install 'rooflens[docs]'", allow_module_level=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site; a warning, as of a link that leads nowhere, fails."""
    out = tmp_path_factory.mktemp("site")
    call(sys.executable, "-m", "sphinx", "-q", "--fail-on-warning", "--keep-going", ROOT / "docs", out, cwd=ROOT)
    return out


def test_options_are_shown_as_they_are_typed(site):
    text = (site / "commands.html").read_text("utf-8")
    assert "resume with --resume" in text
    assert not re.findall(r"–[a-z]+", text)


def test_nothing_is_loaded_from_elsewhere(site):
    loading = r'<(?:script|img|iframe|source|link)\b[^>]*?\s(?:src|href)="([^"]*)"'
    loaded = {url for page in site.rglob("*.html") for url in re.findall(loading, page.read_text("utf-8"))}
    assert len(loaded) > 20
    assert not {url for url in loaded if re.match(r"\w+:|//", url)}
    imported = {url for css in site.rglob("*.css") for url in re.findall(r"url\(([^)]*)\)", css.read_text("utf-8"))}
    assert not {url for url in imported if re.match(r"[\"']?(https?:)?//", url)}


@pytest.fixture
def browser(tmp_path):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [400, 1600])
def test_pages_fit_and_are_searched_without_a_network(site, browser, width):
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    page = context.new_page()
    requested: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in ("index", "quickstart", "commands", "columns", "architecture", "gallery", "measured-facts"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        broken = "[...document.images].filter(i => i.loading != 'lazy' && !i.naturalWidth).map(i => i.src)"
        assert page.evaluate(broken) == []
    found = "ul.search li a"
    page.goto((site / "search.html").as_uri() + "?q=partition+camping")
    page.wait_for_selector(found)
    assert "Camping" in " ".join(page.locator(found).all_inner_texts())
    page.goto((site / "search.html").as_uri() + "?q=NVIDIA+H200")
    page.wait_for_selector(found)
    places = page.eval_on_selector_all(found, "links => links.map(link => link.href)")
    assert not [place for place in places if re.search(r"results/.+/report", place)], "numbers of stored reports"
    assert not [url for url in requested if not url.startswith("file:")]
    assert not errors
