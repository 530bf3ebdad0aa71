"""The documentation site: `make site`. Every page is Markdown that reads the same on GitHub.

Sphinx, with MyST and Furo, because its search runs from a local file, and it asks no other host for anything.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

project = "rooflens"
project_copyright = "rooflens developers"
extensions = ["myst_parser"]
root_doc = "index"
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # stored reports begin tables with headings of the third level
smartquotes = False  # --rounds would become –rounds
html_theme = "furo"
html_title = "rooflens"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # browsers do not let a page on the disk fetch the pages that it found


HERE = Path(__file__).parent


def collect() -> None:
    """Copy the pages of the plugins to where Sphinx looks for pages."""
    for page in (HERE.parent / "plugins").glob("*/README.md"):
        copy = HERE / "plugins" / f"{page.parent.name}.md"
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(page.read_text("utf-8").replace("](../../docs/", "](../"), "utf-8")


def navigation(index: str) -> str:
    """Return a table of contents for the sidebar for each list of pages under a heading of the first page."""
    found = []
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        pages = re.findall(r"^- \[(.+?)\]\((.+?)\.md\)", section, flags=re.MULTILINE)
        caption = section.partition("\n")[0]
        entries = "\n".join(f"{title} <{page}>" for title, page in pages)
        found.append(f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n")
    return "".join(found)


def read(_: Sphinx, page: str, source: list[str]) -> None:
    """Give the first page its tables of contents; leave stored reports out of them and of the search."""
    source[0] = re.sub(r"\]\(\.\./plugins/(\w+)/README\.md", r"](plugins/\1.md", source[0])
    if page == root_doc:
        source[0] += navigation(source[0])
    elif re.match(r"gallery/|results/.+/", page):
        source[0] = f"---\norphan: true\nnosearch: true\n---\n\n{source[0]}"


def setup(app: Sphinx) -> None:
    """Connect the above to Sphinx."""
    collect()
    app.connect("source-read", read)
