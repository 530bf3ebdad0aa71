"""One browser for all tests of a module that look at pages."""

import pytest

from .browsing import ARGUMENTS


@pytest.fixture(scope="module")
def browser(chromium):
    playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright_api.sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield instance
        instance.close()
