"""The names that a checkout offers, by trees that are written here."""

from importlib.machinery import EXTENSION_SUFFIXES

import pytest
from rooflens.harness.worker.code_origin import offered_names, project_names


@pytest.fixture
def offered(tmp_path):
    """Write empty files, and return the names that their tree offers."""

    def write(*files):
        for file in files:
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return sorted(set(offered_names(tmp_path)))

    return write


@pytest.mark.parametrize(
    ("files", "names"),
    [
        # packages begin wherever the folder above is none, but not too deep to be a root
        (["one/__init__.py", "python/two/__init__.py", "lib/deep/three/__init__.py"], ["one", "three", "two"]),
        (["a/b/c/deep/__init__.py"], []),
        # parts of a package are no names of their own, also where the repository is a package itself
        (["one/__init__.py", "one/part/__init__.py", "one/data/plugin/__init__.py"], ["one"]),
        (["__init__.py", "kernels/__init__.py", "__main__.py"], []),
        # single modules lie at the top, in src and in python
        (["a.py", "src/b.py", "python/c.py", "tools/d.py", "setup.py", "conftest.py"], ["a", "b", "c"]),
        # hidden folders and tests offer nothing
        ([".venv/lib/one/__init__.py", "tests/__init__.py", "test/__init__.py"], []),
    ],
)
def test_names_are_those_that_python_would_import(offered, files, names):
    assert offered(*files) == names


def test_an_installed_release_offers_its_modules_and_not_its_machinery(offered, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "planted-release"\n')
    info = tmp_path / "site" / "planted_release-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: planted-release\nVersion: 1.0\n")
    (info / "RECORD").write_text(
        f"planted_package/__init__.py,,\nplanted_ext{EXTENSION_SUFFIXES[0]},,\nplanted_module.py,,\n"
        "__editable___planted_release_1_0_finder.py,,\nplanted.pth,,\nplanted_release-1.0.dist-info/METADATA,,\n"
    )
    monkeypatch.syspath_prepend(str(info.parent))
    assert offered() == ["planted_ext", "planted_module", "planted_package"]


@pytest.mark.parametrize("text", ["", "[project", "[project]\nname = 3\n", '[tool]\nname = "x"\n'])
def test_a_project_that_does_not_say_its_name_has_none(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    assert list(project_names(tmp_path)) == []
