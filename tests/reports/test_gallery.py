"""docs/gallery.md shows what its commands write today; `make results` writes the markdown and the images anew."""

import hashlib
import os
import re
import shlex
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin
from rooflens.cli.main import main

from ..conftest import browser_path
from ..test_docs import documented
from .golden_subjects import kept, page_text

DOCS = Path(__file__).parents[2] / "docs"
GALLERY = DOCS / "gallery"
PAGE = (DOCS / "gallery.md").read_text("utf-8")
WRITE = os.environ.get("ROOFLENS_GOLDEN") == "write"

FIRST_SCREEN = 2000
"""Characters at the top of a page that its image shows; their hash is kept in the image."""

SCREEN = {"width": 1000, "height": 1450}


def commands() -> dict[str, list[str]]:
    """Arguments of `rooflens` by the preset that they show."""
    found = [shlex.split(command.text)[1:] for command in documented(DOCS / "gallery.md")]
    return {arguments[arguments.index("--preset") + 1] if "--preset" in arguments else "full": arguments
            for arguments in found}  # fmt: skip


@pytest.fixture(scope="module", params=[
    pytest.param(preset, marks=() if preset == "three-way" else pytest.mark.slow) for preset in commands()
])  # fmt: skip
def written(request, tmp_path_factory):
    """A preset, and the folder that its page and markdown were written to."""
    folder, here = tmp_path_factory.mktemp("gallery"), Path.cwd()
    os.chdir(DOCS.parent)
    try:
        outputs = ["-o", str(folder / "page.html"), "-o", str(folder / f"{request.param}.md")]
        assert main([*commands()[request.param], *outputs]) == 0
    finally:
        os.chdir(here)
    return request.param, folder


def test_the_markdown_is_what_the_command_writes(written):
    preset, folder = written
    if f"gallery/{preset}.md" not in PAGE:
        pytest.skip("only its image is shown")
    found = {path.relative_to(folder) for path in folder.glob("**/*") if path.is_file()} - {Path("page.html")}
    if WRITE:
        for path in found:
            (GALLERY / path).parent.mkdir(parents=True, exist_ok=True)
            (GALLERY / path).write_bytes((folder / path).read_bytes())
        pytest.skip(f"wrote {preset}.md")
    assert kept((GALLERY / f"{preset}.md").read_text("utf-8")) == kept((folder / f"{preset}.md").read_text("utf-8"))
    assert all((GALLERY / path).is_file() for path in found)


def test_the_image_shows_the_page_of_today(written, request):
    preset, folder = written
    image = DOCS / "images" / f"gallery-{preset}.png"
    shown = kept(page_text((folder / "page.html").read_text("utf-8")))[:FIRST_SCREEN]
    digest = hashlib.sha256(shown.encode()).hexdigest()
    if WRITE:
        if browser_path() is None:
            pytest.skip("no Chromium to take the image with")
        browser = request.getfixturevalue("browser")
        page = browser.new_page(viewport=SCREEN)
        page.goto((folder / "page.html").as_uri())
        page.screenshot(path=image)
        page.close()
        information = PngImagePlugin.PngInfo()
        information.add_text("shows", digest)
        Image.open(image).convert("P", palette=Image.Palette.ADAPTIVE).save(image, pnginfo=information, optimize=True)
        pytest.skip(f"wrote {image.name}")
    assert Image.open(image).text["shows"] == digest, "the page has changed: run make results"


def test_nothing_is_left_over():
    bodies = [path.read_text("utf-8") for path in GALLERY.glob("*.md")]
    linked = {link for body in bodies for link in re.findall(r"\]\((figures/[^)]+)\)", body)}
    assert {f"figures/{path.name}" for path in GALLERY.glob("figures/*")} == linked
    assert {path.name for path in GALLERY.glob("*.md")} == set(re.findall(r"\(gallery/([^)]+)\)", PAGE))
    assert {path.name for path in (DOCS / "images").glob("gallery-*")} == set(re.findall(r"\(images/([^)]+)\)", PAGE))
