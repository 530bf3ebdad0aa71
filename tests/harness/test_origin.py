"""An arm that imports anything but its own checkout is refused: it would be A/A sold as A/B."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from rooflens.harness.origin import Origin, OriginError
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
    (site / "planted_release-1.0.dist-info" / "RECORD").write_text("planted_ext.cpython-311.so,,\n")
    monkeypatch.syspath_prepend(str(site))
    place.check_code()
    loaded("planted_ext", site / "planted_ext.cpython-311.py")
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
