"""One browser for all tests of a module that look at pages."""

from contextlib import ExitStack

import pytest

from .browsing import ARGUMENTS, quiet_page


@pytest.fixture(scope="module")
def browser(chromium):
    playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright_api.sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield instance
        instance.close()


@pytest.fixture
def open_page(browser):
    """Return `open_page(address, width, scheme)`; nothing may be said on the console, nothing fetched."""
    with ExitStack() as pages:
        yield lambda *told, **more: pages.enter_context(quiet_page(browser, *told, **more))
