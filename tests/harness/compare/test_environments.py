"""The environment of one version: the invoking packages are visible, its own come first, and --setup runs in it."""

import subprocess
from pathlib import Path

import pytest
import rooflens
import torch
from rooflens.harness.compare import environments
from rooflens.harness.compare.environments import VersionEnvironment
from rooflens.shapes.errors import Interrupted

INSTALL = """
cat > install.py <<END
import os, site
open(os.path.join(site.getsitepackages()[0], "planted.pth"), "w").write(os.getcwd())
END
python install.py && pip --version
"""
"""What pip install -e does in the end, without a build."""


@pytest.fixture
def environment(tmp_path):
    tree = tmp_path / "scratch" / "tree"
    (tree / "planted_package").mkdir(parents=True)
    (tree / "planted_package" / "__init__.py").write_text("")
    return VersionEnvironment(tmp_path / "scratch", tree)


def ask(environment, code, has_setup=False, ours=False):
    """Run Python in the environment, somewhere else than in the checkout."""
    done = subprocess.run(
        [environment.python, "-c", code], env=environment.variables(has_setup, ours), cwd=environment.folder,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_invoking_packages_and_the_checkout_are_visible_and_caches_its_own(environment, tmp_path):
    environments.create(environment, "", tmp_path / "log", ours=False)
    modules = "rooflens, torch, planted_package"
    code = f"import sys, {modules}; print(*(module.__file__ for module in ({modules})), sys.prefix)"
    ours, torchs, planted, prefix = ask(environment, code)
    assert Path(ours).resolve() == Path(rooflens.__file__).resolve()
    assert Path(torchs) == Path(torch.__file__)
    assert Path(planted).is_relative_to(environment.tree)
    assert Path(prefix) == environment.prefix
    names = ("TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "VIRTUAL_ENV")
    places = ask(environment, f"import os; print(*(os.environ[name] for name in {names}))")
    assert all(Path(place).is_relative_to(environment.folder) for place in places)


@pytest.mark.slow
def test_setup_installs_into_it_and_nowhere_else(environment, tmp_path):
    environments.create(environment, INSTALL, tmp_path / "log", ours=False)
    (file,) = ask(environment, "import planted_package as p; print(p.__file__)", has_setup=True)
    assert Path(file).is_relative_to(environment.tree)
    assert f"from {environment.prefix}" in (tmp_path / "log").read_text(), "another environment's pip"
    with pytest.raises(ModuleNotFoundError):
        __import__("planted_package")


@pytest.mark.slow
def test_a_setup_ends_when_it_is_to_stop(environment, tmp_path):
    with pytest.raises(Interrupted, match="interrupted during --setup"):
        environments.create(environment, "sleep 600", tmp_path / "log", ours=False, should_stop=lambda: True)


def test_an_overlay_has_the_kernels_of_the_checkout_and_the_harness_of_here(environment, tmp_path):
    (environment.tree / "kernels").mkdir()
    (environment.tree / "kernels" / "planted.py").write_text("")
    environments.create(environment, "", tmp_path / "log", ours=True)
    code = "import rooflens.harness.plan.plan as h, rooflens.kernels.planted as k; print(h.__file__, k.__file__)"
    harness, kernels = ask(environment, code, ours=True)
    here = Path(rooflens.__file__).resolve().parent
    assert Path(harness).resolve() == here / "harness" / "plan" / "plan.py"
    assert Path(kernels).resolve().is_relative_to(environment.tree)
