"""An arm that imports anything but its own checkout is refused: it would be A/A sold as A/B."""

import importlib.util
import json
import re
import sys
import types
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
import rooflens
from rooflens.harness.worker.code_origin import Origin, OriginError
from rooflens.kernels import registry
from rooflens.shapes.errors import RooflensError

PROVIDER = """
from rooflens.kernels.provider import Launch, Provider

class Mine(Provider):
    name = "mine"

    def prepare(self, inputs, config=None):
        return Launch(lambda: None, inputs.empty_outputs())

PROVIDERS = [Mine()]
"""


RESOLVED = cache(Path.resolve)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "resolve", RESOLVED)  # modules of other tests stay where they are
    origin = Origin(tmp_path / "tree", tmp_path / "env", tmp_path / "repo")
    for folder in (origin.tree, origin.environment, origin.working_tree):
        folder.mkdir()
    return origin


@pytest.fixture
def loaded(monkeypatch):
    """Load a file as a module; forgotten after the test."""

    def load(name, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return load


@pytest.mark.parametrize(
    ("folder", "ours", "refused"),
    [
        ("tree", False, ""),
        ("working_tree", False, r"provider mine comes from .*repo/kernels\.py, not from the checkout"),
        ("", False, ""),  # shipped providers may serve as controls
        ("", True, "provider blas comes from"),  # but are of another rooflens where they are what is compared
    ],
)
def test_providers_are_those_of_the_checkout_and_shipped_controls(place, folder, ours, refused):
    if folder:
        file = getattr(place, folder) / "kernels.py"
        file.write_text(PROVIDER, encoding="utf-8")
    providers = registry.load((), [file]) if folder else registry.load(["blas"])
    with pytest.raises(RooflensError, match=refused) if refused else nullcontext():
        replace(place, ours=ours).check_providers(providers)
    if not refused:
        place.check_used(providers.values())  # a file of the repository is its version itself


def test_modules_of_other_kernels_of_rooflens_are_refused_where_they_are_what_is_compared(place, loaded, tmp_path):
    ours = replace(place, ours=True)
    loaded("rooflens.kernels.planted", ours.tree / "kernels" / "planted.py")
    here = sys.modules.copy()
    for name in [name for name in here if name.startswith("rooflens.kernels.") and name != "rooflens.kernels.planted"]:
        del sys.modules[name]
    try:
        ours.check_code()
        loaded("rooflens.harness.planted", tmp_path / "harness" / "planted.py")  # the invoking one measures
        ours.check_code()
        loaded("rooflens.kernels.planted", tmp_path / "kernels" / "planted.py")
        place.check_code()  # as controls they may come from anywhere
        with pytest.raises(OriginError, match=r"module rooflens\.kernels\.planted comes from"):
            ours.check_code()
    finally:
        sys.modules.update({name: module for name, module in here.items() if name != "rooflens.kernels.planted"})


def test_rooflens_may_be_installed_from_the_working_tree(place, monkeypatch):
    root = Path(rooflens.__file__).resolve().parent
    module = types.ModuleType("planted_helper")
    module.__file__ = str(root / "cli" / "main.py")
    monkeypatch.setitem(sys.modules, "planted_helper", module)
    Origin(place.tree, place.environment, root).check_code()


GITMODULES = """[submodule "composable_kernel"]
\tpath = libs/composable_kernel
\turl = https://example.org/composable_kernel
[submodule "two words"]
    url = https://example.org/two.git
    path="libs/two words"
"""

VENDORED = (
    *("third_party", "3rdparty", "csrc/third_party", "vendor", "external", "External", "python/third-party", "tests"),
)
ELSEWHERE = "site-packages/planted/__init__.py"

IMPORTS = {
    "a package from the working tree": ((), "planted.gemm", "repo/planted/gemm.py", True),
    "another install of a package of the checkout": (("src/planted",), "planted", ELSEWHERE, True),
    "a package of the checkout": (("planted",), "planted.gemm", "tree/planted/gemm.py", False),
    "what --setup installed": (("planted",), "planted", "env/lib/planted/__init__.py", False),
    "a package of others in an environment inside of the working tree": (
        (), "numpy_of_test", "repo/.venv/lib/site-packages/numpy_of_test/__init__.py", False,
    ),
    "a package that begins deeper": (("python/planted",), "planted.gemm", "site-packages/planted/gemm.py", True),
    "a package too deep to be a root": (("a/b/c/planted",), "planted", ELSEWHERE, False),
    "a package three folders down": (("lib/deep/planted",), "planted", ELSEWHERE, True),
    "a part of a package": (("one", "one/planted"), "planted", ELSEWHERE, False),
    "a package among the data of another": (("one", "one/data/planted"), "planted", ELSEWHERE, False),
    "a part of a repository that is a package": (("__init__.py", "planted"), "planted", ELSEWHERE, False),
    **{
        f"a single module {file}": ((file,), Path(file).stem, f"site-packages/{Path(file).name}", is_refused)
        for file, is_refused in {
            "planted.py": True, "src/planted.py": True, "python/planted.py": True, "tools/planted.py": False,
            "setup.py": False, "conftest.py": False, "__main__.py": False,
        }.items()
    },
    "a package of a hidden folder": ((".venv/lib/planted/__init__.py",), "planted", ELSEWHERE, False),
    "tests of others": (("tests",), "tests", "site-packages/tests/__init__.py", False),
    "test of others": (("test",), "test", "site-packages/test/__init__.py", False),
    # The checkout has them for its build; that Python imports them from where pip put them is right.
    **{f"a copy of others in {folder}": ((f"{folder}/planted",), "planted", ELSEWHERE, False) for folder in VENDORED},
    **{
        f"its own in {folder}": ((f"{folder}/planted",), "planted", ELSEWHERE, True)
        for folder in ("third_party_kernels", "vendors", "my_tests", "externally")
    },
    # Both versions would import one copy, of neither commit.
    "a copy of others from the working tree": ((), "planted", "repo/third_party/planted/__init__.py", True),
    **{
        f"{folder} where {'it is a submodule' if modules else 'there is none'}": (
            (f"{folder}/planted", *modules), "planted", ELSEWHERE, not modules or folder == "libs",
        )
        for folder in ("libs/composable_kernel", "libs/two words", "libs")
        for modules in ((), (".gitmodules",))
    },
}  # fmt: skip
"""Packages, modules and other files of the checkout; the module that is imported, from where; whether it is refused."""


@pytest.mark.parametrize(("checkout", "module", "path", "is_refused"), IMPORTS.values(), ids=IMPORTS)
def test_a_module_is_refused_unless_it_is_of_the_checkout_or_of_others(
    place, loaded, tmp_path, checkout, module, path, is_refused
):
    for name in checkout:
        file = place.tree / (name if "." in name else f"{name}/__init__.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(GITMODULES if name == ".gitmodules" else "")
    loaded(module, tmp_path / path)
    refused = pytest.raises(OriginError, match=rf"module {re.escape(module)} comes from .*--setup")
    with refused if is_refused else nullcontext():
        place.check_code()


@pytest.fixture
def release(place, monkeypatch):
    """Return `release(site)`: install the project's own release there, by pip, with an extension; its metadata."""

    def install(site):
        (place.tree / "pyproject.toml").write_text('[project]\nname = "planted-release"\n')
        info = site / "planted_release-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Name: planted-release\nVersion: 1.0\n")
        (info / "RECORD").write_text(
            f"planted_package/__init__.py,,\nplanted_ext{EXTENSION_SUFFIXES[0]},,\nplanted_module.py,,\n"
            "__editable___planted_release_1_0_finder.py,,\nplanted.pth,,\nplanted_release-1.0.dist-info/METADATA,,\n"
        )
        (info / "INSTALLER").write_text("pip\n")
        monkeypatch.syspath_prepend(str(site))
        return info

    return install


@pytest.mark.parametrize("name", ["planted_ext", "planted_module", "planted_package"])
def test_what_the_installed_release_brings_is_refused_where_it_is_loaded(place, loaded, tmp_path, release, name):
    """Its names stand nowhere in the checkout; how pip installed it is no module of its own."""
    release(tmp_path / "site-packages")
    finder = "__editable___planted_release_1_0_finder"
    loaded(finder, tmp_path / "site-packages" / f"{finder}.py")
    place.check_code()
    loaded(name, tmp_path / "site-packages" / f"{name}.py")
    with pytest.raises(OriginError, match=name):
        place.check_code()


@pytest.mark.parametrize("text", ["", "[project", "[project]\nname = 3\n", '[tool]\nname = "x"\n'])
def test_a_project_that_does_not_say_its_name_has_no_release(place, text):
    (place.tree / "pyproject.toml").write_text(text)
    place.check_code()


def test_a_release_that_setup_took_from_an_index_is_refused(place, release):
    info = release(place.environment / "site-packages")
    for url in (None, "file:///elsewhere"):
        if url:
            (info / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {}}))
        with pytest.raises(OriginError, match="installed by --setup from somewhere else"):
            place.check_code()
    (info / "direct_url.json").write_text(json.dumps({"url": f"file://{place.tree}", "dir_info": {}}))
    place.check_code()


def test_a_library_of_the_working_tree_is_refused(place, tmp_path):
    """What torch.ops.load_library maps is no module."""
    import ctypes
    import shutil

    library = next(Path("/usr/lib").rglob("libbz2.so*"), None) or next(Path("/lib").rglob("libm.so*"))
    copy = place.working_tree / "planted.so"
    shutil.copy(library, copy)
    ctypes.CDLL(str(copy))
    with pytest.raises(OriginError, match=r"library planted\.so"):
        place.check_code()


@pytest.fixture
def copied(place):
    """An arm with a provider file from outside of the repository, and its providers."""
    file = place.tree / ".rooflens" / "kernels.py"
    file.parent.mkdir()
    file.write_text(PROVIDER, encoding="utf-8")
    origin = replace(place, copied=(".rooflens/kernels.py",))
    return origin, registry.load((), [file])


def test_a_copied_file_that_uses_nothing_of_the_version_is_refused(copied, loaded, tmp_path):
    origin, providers = copied
    loaded("_distutils_hack", origin.environment / "site-packages" / "_distutils_hack" / "__init__.py")
    finder = "__editable___planted_0_1_finder"  # of pip install -e, in every process
    loaded(finder, origin.environment / "site-packages" / f"{finder}.py")
    loaded("third_party_of_test", tmp_path / "site-packages" / "third_party_of_test.py")
    origin.check_providers(providers)
    with pytest.raises(OriginError, match=r"kernels\.py: it is not in the repository, and has imported nothing of it"):
        origin.check_used(providers.values())


@pytest.mark.parametrize("folder", ["tree", "environment"])
def test_a_copied_file_that_uses_the_checkout_or_what_setup_installed_is_welcome(copied, loaded, folder):
    origin, providers = copied
    loaded("kernels_of_test", getattr(origin, folder) / "kernels_of_test.py")
    origin.check_used(providers.values())


def test_a_shipped_control_uses_nothing_of_the_version(copied):
    origin, _ = copied
    origin.check_used(registry.load(["blas"]).values())
