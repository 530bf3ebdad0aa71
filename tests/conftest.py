"""What all tests share: when GPU and browser tests are skipped, and how hypothesis draws its examples.

A property that asks for more or fewer examples than usual asks for a multiple of `settings().max_examples`.
"""

import gc
import os
import shutil
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import settings
from rooflens.harness.sweep import child_process

from .forks import Forked, settings_of_libraries

if "PYTEST_XDIST_WORKER" in os.environ:
    # Threads of OpenMP that wait leave the core to the other workers: a quarter of the processor time.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Workers that tests start from this process import torch once, for all of them.
child_process.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": Forked})  # type: ignore[assignment]

# A busy machine makes no example slow, and the same commit draws the same examples everywhere.
settings.register_profile("thorough", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=20)
settings.load_profile("quick")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def browser_path() -> str | None:
    """Path of the first Chromium on this machine."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def no_gpu_reason() -> str:
    """Say why GPU tests cannot run here; empty when they can. Imports torch, so only asked when there are any."""
    import torch

    if torch.cuda.is_available():
        return ""
    build = "ROCm" if torch.version.hip else "CUDA" if torch.version.cuda else "CPU-only"
    return f"no CUDA or ROCm device (torch {torch.__version__} is a {build} build)"


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason, what this machine cannot run; keep the tests of a module together on one worker of xdist.

    Tests that share a GPU, or a cluster of Ray, run on one worker too. A warning in a test is an error; one of a plugin
    that the machine happens to have is not.
    """
    error = pytest.mark.filterwarnings("error")
    for item in items:
        item.add_marker(error, append=False)  # those of the test itself come after it
        if not item.get_closest_marker("xdist_group"):
            shared = next((name for name in ("gpu", "ray") if item.get_closest_marker(name)), None)
            item.add_marker(pytest.mark.xdist_group(shared or item.nodeid.partition("::")[0]))
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if gpu and (reason := no_gpu_reason()):
        for item in gpu:
            item.add_marker(pytest.mark.skip(reason=reason))
    if browser_path() is None:
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip(reason=f"no browser: none of {', '.join(BROWSERS)} on PATH"))


def pytest_collection_finish() -> None:
    """What test modules have imported stays: the garbage collector took an eighth of the time, looking through it."""
    gc.freeze()
    Forked.began_as = settings_of_libraries()


def pytest_unconfigure() -> None:
    """Let the last collection find everything, else Triton's bindings list hundreds of objects as leaked."""
    gc.unfreeze()


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage collection, as while launches are timed: what is freed is freed by whoever held it."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of Chromium, for tests marked `browser`."""
    path = browser_path()
    assert path is not None, "mark the test with pytest.mark.browser"
    return path
