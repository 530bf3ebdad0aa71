"""An arm that imports anything but its own checkout is refused: it would be A/A sold as A/B."""

import importlib.util
import json
import sys

import pytest
from rooflens.harness.origin import Origin
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
        place.check_modules()


def test_another_install_of_a_package_of_the_checkout_is_refused(place, loaded, tmp_path):
    (place.tree / "src" / "planted_package").mkdir(parents=True)
    (place.tree / "src" / "planted_package" / "__init__.py").write_text("")
    loaded("planted_package", tmp_path / "site-packages" / "planted_package" / "__init__.py")
    with pytest.raises(RooflensError, match="module planted_package comes from"):
        place.check_modules()


def test_what_setup_installed_into_the_environment_is_welcome(place, loaded):
    (place.tree / "planted_package").mkdir()
    (place.tree / "planted_package" / "__init__.py").write_text("")
    loaded("planted_package", place.environment / "lib" / "planted_package" / "__init__.py")
    loaded("planted_package.gemm", place.tree / "planted_package" / "gemm.py")
    place.check_modules()


def test_it_survives_the_way_through_a_file(place, tmp_path):
    content = {"tree": str(place.tree), "environment": str(place.environment), "working_tree": str(place.working_tree)}
    (tmp_path / "origin.json").write_text(json.dumps(content | {"ours": False}))
    assert Origin.read(tmp_path / "origin.json") == place
