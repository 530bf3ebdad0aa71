"""An arm that imports anything but its own checkout is refused: it would be A/A sold as A/B."""

import importlib.util
import json
import sys
import types
from dataclasses import replace
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


@pytest.fixture
def place(tmp_path):
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


def test_a_provider_of_the_checkout_is_welcome(place):
    (place.tree / "kernels.py").write_text(PROVIDER, encoding="utf-8")
    place.check_providers(registry.load((), [place.tree / "kernels.py"]))


def test_a_provider_of_the_working_tree_is_refused(place):
    (place.working_tree / "kernels.py").write_text(PROVIDER, encoding="utf-8")
    with pytest.raises(RooflensError, match=r"provider mine comes from .*repo/kernels\.py, not from the checkout"):
        place.check_providers(registry.load((), [place.working_tree / "kernels.py"]))


def test_shipped_providers_may_serve_as_controls(place):
    place.check_providers(registry.load(["blas"]))


def test_shipped_kernels_of_another_rooflens_are_refused_where_they_are_what_is_compared(place):
    ours = Origin(place.tree, place.environment, place.working_tree, ours=True)
    with pytest.raises(RooflensError, match="provider blas comes from"):
        ours.check_providers(registry.load(["blas"]))


def test_modules_of_other_kernels_of_rooflens_are_refused_where_they_are_what_is_compared(place, loaded, tmp_path):
    ours = Origin(place.tree, place.environment, place.working_tree, ours=True)
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


def test_a_package_from_the_working_tree_is_refused(place, loaded):
    loaded("planted_package.gemm", place.working_tree / "planted_package" / "gemm.py")
    with pytest.raises(RooflensError, match=r"module planted_package\.gemm comes from .*--setup"):
        place.check_code()


def test_another_install_of_a_package_of_the_checkout_is_refused(place, loaded, tmp_path):
    (place.tree / "src" / "planted_package").mkdir(parents=True)
    (place.tree / "src" / "planted_package" / "__init__.py").write_text("")
    loaded("planted_package", tmp_path / "site-packages" / "planted_package" / "__init__.py")
    with pytest.raises(RooflensError, match="module planted_package comes from"):
        place.check_code()


def test_what_setup_installed_into_the_environment_is_welcome(place, loaded):
    (place.tree / "planted_package").mkdir()
    (place.tree / "planted_package" / "__init__.py").write_text("")
    loaded("planted_package", place.environment / "lib" / "planted_package" / "__init__.py")
    loaded("planted_package.gemm", place.tree / "planted_package" / "gemm.py")
    place.check_code()


def test_it_survives_the_way_through_a_file(place, tmp_path):
    content = {"tree": str(place.tree), "environment": str(place.environment), "working_tree": str(place.working_tree)}
    (tmp_path / "origin.json").write_text(json.dumps(content | {"ours": False}))
    assert Origin.read(tmp_path / "origin.json") == place


def test_an_environment_inside_of_the_working_tree_holds_packages_of_others(place, loaded):
    loaded("planted_numpy", place.working_tree / ".venv" / "lib" / "site-packages" / "planted_numpy" / "__init__.py")
    place.check_code()


def test_packages_that_begin_deeper_and_single_modules_are_known(place, loaded, tmp_path):
    (place.tree / "python" / "deep_package").mkdir(parents=True)
    (place.tree / "python" / "deep_package" / "__init__.py").write_text("")
    (place.tree / "single_module.py").write_text("")
    (place.tree / "tests").mkdir()
    (place.tree / "tests" / "__init__.py").write_text("")
    loaded("tests_of_others", tmp_path / "site-packages" / "tests" / "__init__.py")
    place.check_code()
    loaded("deep_package.gemm", tmp_path / "site-packages" / "deep_package" / "gemm.py")
    with pytest.raises(OriginError, match=r"deep_package\.gemm"):
        place.check_code()


@pytest.mark.parametrize(
    "folder",
    ["third_party", "3rdparty", "csrc/third_party", "vendor", "external", "External", "python/third-party", "tests"],
)
def test_copies_of_the_packages_of_others_are_not_what_is_compared(place, loaded, tmp_path, folder):
    """The checkout has them for its build; that Python imports them from where pip put them is right."""
    (place.tree / folder / "planted_vendored").mkdir(parents=True)
    (place.tree / folder / "planted_vendored" / "__init__.py").write_text("")
    loaded("planted_vendored", tmp_path / "site-packages" / "planted_vendored" / "__init__.py")
    place.check_code()


@pytest.mark.parametrize("folder", ["third_party_kernels", "vendors", "my_tests", "externally"])
def test_folders_that_are_only_called_like_those_are_the_repositorys_own(place, loaded, tmp_path, folder):
    (place.tree / folder / "planted_package").mkdir(parents=True)
    (place.tree / folder / "planted_package" / "__init__.py").write_text("")
    loaded("planted_package", tmp_path / "site-packages" / "planted_package" / "__init__.py")
    with pytest.raises(OriginError, match="module planted_package comes from"):
        place.check_code()


GITMODULES = """[submodule "composable_kernel"]
\tpath = libs/composable_kernel
\turl = https://example.org/composable_kernel
[submodule "two words"]
    url = https://example.org/two.git
    path="libs/two words"
"""


@pytest.mark.parametrize("folder", ["libs/composable_kernel", "libs/two words"])
def test_packages_of_submodules_are_those_of_others(place, loaded, tmp_path, folder):
    (place.tree / folder / "planted_package").mkdir(parents=True)
    (place.tree / folder / "planted_package" / "__init__.py").write_text("")
    loaded("planted_package", tmp_path / "site-packages" / "planted_package" / "__init__.py")
    with pytest.raises(OriginError, match="module planted_package comes from"):
        place.check_code()
    (place.tree / ".gitmodules").write_text(GITMODULES)
    place.check_code()


def test_what_lies_beside_a_submodule_is_the_repositorys_own(place, loaded, tmp_path):
    (place.tree / ".gitmodules").write_text(GITMODULES)
    (place.tree / "libs" / "planted_package").mkdir(parents=True)
    (place.tree / "libs" / "planted_package" / "__init__.py").write_text("")
    loaded("planted_package", tmp_path / "site-packages" / "planted_package" / "__init__.py")
    with pytest.raises(OriginError, match="module planted_package comes from"):
        place.check_code()


def test_a_package_of_others_from_the_working_tree_is_refused_all_the_same(place, loaded):
    """Both versions would import one copy, of neither commit."""
    loaded("planted_vendored", place.working_tree / "third_party" / "planted_vendored" / "__init__.py")
    with pytest.raises(OriginError, match="planted_vendored"):
        place.check_code()


def test_a_single_module_of_another_install_is_refused(place, loaded, tmp_path):
    (place.tree / "single_module.py").write_text("")
    loaded("single_module", tmp_path / "site-packages" / "single_module.py")
    with pytest.raises(OriginError, match="single_module"):
        place.check_code()


def test_an_extension_of_the_installed_release_is_refused(place, loaded, tmp_path, monkeypatch):
    """Its name stands nowhere in the checkout: it is what the project's own release brings."""
    (place.tree / "pyproject.toml").write_text('[project]\nname = "planted-release"\n')
    site = tmp_path / "site-packages"
    (site / "planted_release-1.0.dist-info").mkdir(parents=True)
    (site / "planted_release-1.0.dist-info" / "METADATA").write_text("Name: planted-release\nVersion: 1.0\n")
    (site / "planted_release-1.0.dist-info" / "RECORD").write_text(f"planted_ext{EXTENSION_SUFFIXES[0]},,\n")
    monkeypatch.syspath_prepend(str(site))
    place.check_code()
    loaded("planted_ext", site / "planted_ext.py")
    with pytest.raises(OriginError, match="planted_ext"):
        place.check_code()


def test_a_release_that_setup_took_from_an_index_is_refused(place, monkeypatch):
    (place.tree / "pyproject.toml").write_text('[project]\nname = "planted-release"\n')
    info = place.environment / "site-packages" / "planted_release-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: planted-release\nVersion: 1.0\n")
    (info / "INSTALLER").write_text("pip\n")
    monkeypatch.syspath_prepend(str(info.parent))
    with pytest.raises(OriginError, match="installed by --setup from somewhere else"):
        place.check_code()
    (info / "direct_url.json").write_text(json.dumps({"url": "file:///elsewhere", "dir_info": {}}))
    with pytest.raises(OriginError, match="installed by --setup from somewhere else"):
        place.check_code()
    (info / "direct_url.json").write_text(json.dumps({"url": f"file://{place.tree}", "dir_info": {}}))
    place.check_code()


def test_a_release_that_the_invoking_python_has_and_nobody_loads_is_no_matter(place, tmp_path, monkeypatch):
    (place.tree / "pyproject.toml").write_text('[project]\nname = "planted-release"\n')
    info = tmp_path / "site-packages" / "planted_release-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: planted-release\nVersion: 1.0\n")
    (info / "INSTALLER").write_text("pip\n")
    monkeypatch.syspath_prepend(str(info.parent))
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


def test_a_file_of_the_repository_is_its_version_itself(place):
    (place.tree / "kernels.py").write_text(PROVIDER, encoding="utf-8")
    place.check_used(registry.load((), [place.tree / "kernels.py"]).values())


def test_a_shipped_control_uses_nothing_of_the_version(copied):
    origin, _ = copied
    origin.check_used(registry.load(["blas"]).values())
