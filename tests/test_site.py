"""The documentation site, built as `make site` does and read from the disk by a browser that has no network."""

import re
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

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


class Links(HTMLParser):
    """What a page loads by itself, what it links to, and the places that can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.places |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.linked.append(found["href"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "preload", "icon"):
            self.loaded.append(found["href"])
        elif found.get("src"):
            self.loaded.append(found["src"])


def test_links_lead_to_files_and_places_that_exist(site):
    pages = {page: Links(page) for page in site.rglob("*.html")}
    assert len(pages) > 20
    wrong = []
    for page, links in pages.items():
        for target in (*links.loaded, *links.linked):
            parts = urlsplit(target)
            if parts.scheme or (page.name == "search.html" and not parts.path):
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            place = unquote(parts.fragment)
            if not file.is_file() or (place and file in pages and place not in pages[file].places):
                wrong.append(f"{page.relative_to(site)}: {target}")
    assert not wrong


def test_options_are_shown_as_they_are_typed(site):
    text = (site / "commands.html").read_text("utf-8")
    assert "resume with --resume" in text
    assert not re.findall(r"–[a-z]+", text)


def test_nothing_is_loaded_from_elsewhere(site):
    loaded = {url for page in site.rglob("*.html") for url in Links(page).loaded}
    assert not {url for url in loaded if urlsplit(url).scheme or url.startswith("//")}
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
