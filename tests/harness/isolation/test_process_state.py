"""Whatever a provider changes in the process is noticed and named; it is put back, or the process ends after it."""

import gc
import multiprocessing
import os
import random
import threading
import time
from functools import partial

import numpy as np
import pytest
import torch
from rooflens.harness.isolation import settings
from rooflens.harness.isolation.faults import IncorrectError, LeftBehindError, ProviderError, StateLostError, is_lost
from rooflens.harness.isolation.process_state import Guard

from .. import leaving_providers
from ..leaving_providers import CHANGES, FOR_GOOD, PACED, getrlimit

ALL = {"put back": leaving_providers.RESTORED, "kept": CHANGES | FOR_GOOD, "fatal": PACED}


@pytest.fixture
def guard():
    hook = threading.excepthook
    yield Guard()
    threading.excepthook = hook


def leaves(guard, *changes, provider="mine"):
    """Make changes as code of a provider; an exception is one of them."""
    with guard.around(provider) as left:
        for change in changes:
            if isinstance(change, Exception):
                raise change
            change()
    return left


def left_one_by_one(names):
    """Make changes one after another; return of each what is raised, what the guard says, and what stays changed."""
    gc.unfreeze()
    changes = {name: change for kind in ALL.values() for name, change in kind.items()}
    found = {}
    for name in names:
        guard, before = Guard(), settings.now()
        try:
            raised, said = "", leaves(guard, changes[name])
        except Exception as error:
            raised, said = type(error).__name__, [str(error)]
        found[name] = raised, said, guard.left, "; ".join(settings.restore(before)[1].values())
    return found


@pytest.fixture(scope="module")
def left():
    """What happens to each setting in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(left_one_by_one, ([name for kind in ("put back", "fatal", "kept") for name in ALL[kind]],))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in ALL.items() for name in names])
def test_what_a_provider_leaves_is_named_and_put_back_or_costs_the_process(left, kind, name):
    raised, said, moved, still = left[name]
    if kind == "put back":
        assert (raised, moved, still) == ("", {}, "")
        assert said[0].startswith(f"left {name} ")
        return
    assert f"left {name} " in still
    assert f"left {name} " in moved["mine"]
    assert raised == ("LeftBehindError" if kind == "fatal" else "StateLostError")
    assert kind != "fatal" or said[0].endswith(": set it back in the same call")


def test_a_provider_that_is_alone_may_leave_all_but_what_decides_on_times(guard, monkeypatch):
    guard.alone, before = "mine", os.umask(0o022)
    assert leaves(guard, partial(os.umask, 0o007)) == []
    assert os.umask(before) == 0o007
    with pytest.raises(LeftBehindError, match=r"left module time changed \(sleep\): set it back in the same call"):
        leaves(guard, partial(monkeypatch.setattr, time, "sleep", leaves))
    assert guard.left == {}


def test_each_setting_is_tested():
    fixed = {name for name in settings.READ if name.startswith("RLIMIT_") and getrlimit(name) == (0, 0)}
    of_a_gpu = {"torch.cuda.current_device", "torch.cuda.current_stream", *(name for name, *_ in OF_A_GPU)}
    read = {name.removesuffix("()").removesuffix(".copy") for name in settings.READ if name not in settings.CONSUMED}
    assert read == {name for kind in ALL.values() for name in kind} - {*settings.OF_THREADS} | fixed | of_a_gpu
    assert len(settings.CONSUMED) == 4


def test_an_exception_keeps_its_class_and_tells_what_was_left(guard):
    with pytest.raises(KeyError) as caught:
        leaves(guard, leaving_providers.RESTORED["torch.get_default_dtype"], KeyError("its own"))
    assert [note.partition(" at ")[0] for note in caught.value.__notes__] == ["left torch.get_default_dtype"]
    assert not is_lost(caught.value)
    assert torch.get_default_dtype() is torch.float32


@pytest.mark.parametrize(("alone", "lost"), [("", True), ("mine", False)])
def test_an_exception_costs_the_process_too_unless_its_provider_is_alone(guard, alone, lost):
    guard.alone, before = alone, os.umask(0o022)
    with pytest.raises(KeyError) as caught:
        leaves(guard, partial(os.umask, 0o007), KeyError("its own"))
    os.umask(before)
    assert caught.value.__notes__ == [f"left umask at {0o007} instead of {0o022}"]
    assert is_lost(caught.value) == lost
    assert [*guard.left] == ["mine"] * lost


def test_random_states_are_put_back_and_nobody_is_named(guard):
    draws = (random.random, np.random.random, lambda: torch.rand(1).item())
    with guard.around("mine") as left:
        first = [draw() for draw in draws]
        torch.manual_seed(5)
    assert left == []
    assert [draw() for draw in draws] == first


def test_a_thread_that_pins_itself_is_left_alone(guard):
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("one core")
    ends, pinned = threading.Event(), threading.Event()

    def pins():
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        pinned.set()
        ends.wait()

    thread = threading.Thread(target=pins)
    with guard.around("mine") as left:
        thread.start()
        pinned.wait()
    assert left == []
    assert len(os.sched_getaffinity(thread.native_id)) == 1
    ends.set()
    thread.join()


def test_a_thread_that_spins_costs_the_process(guard):
    ends = threading.Event()

    def spins():
        while not ends.is_set():
            pass

    thread = threading.Thread(target=spins, name="spinner")
    with pytest.raises(LeftBehindError, match="left a thread behind that keeps a core busy: spinner"):
        leaves(guard, thread.start)
    ends.set()
    thread.join()


def raises(when=None):
    def target():
        if when is not None:
            when.wait()
        raise ValueError("no such tile")

    thread = threading.Thread(target=target)
    thread.start()
    return thread


@pytest.fixture
def silent(monkeypatch):
    """What threads raise is not printed, and no warning of pytest."""
    monkeypatch.setattr(threading, "excepthook", lambda args: None)


def test_what_a_thread_raises_fails_its_provider(silent):
    guard = Guard()
    with pytest.raises(ProviderError, match=r"a thread .* raised ValueError: no such tile \(test_process.*:\d+\)"):
        leaves(guard, lambda: raises().join())
    assert leaves(guard) == []


def test_what_a_thread_raised_is_told_rather_than_the_output_it_left_out(silent):
    with pytest.raises(ProviderError, match="no such tile"):
        leaves(Guard(), lambda: raises().join(), IncorrectError("SNR", {}))


def test_what_a_thread_raises_later_fails_its_own_provider(silent):
    guard, later = Guard(), threading.Event()
    with guard.around("mine"):
        thread = raises(later)
    with guard.around("other"):
        later.set()
        thread.join()
    with pytest.raises(ProviderError, match="no such tile"):
        leaves(guard)


BLAS, CUDA = torch.backends.cuda.preferred_blas_library, torch.cuda
OF_A_GPU = (
    ("torch.backends.cuda.preferred_blas_library", BLAS, "cublaslt", "default"),
    ("torch.cuda.get_sync_debug_mode", CUDA.set_sync_debug_mode, "warn", "default"),
    ("torch.cuda.tunable.is_enabled", CUDA.tunable.enable, True, False),
    ("torch.cuda.tunable.tuning_is_enabled", CUDA.tunable.tuning_enable, False, True),
    ("torch.cuda.get_per_process_memory_fraction", CUDA.set_per_process_memory_fraction, 0.5, 1.0),
)
"""How each is changed, and changed again."""


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "write", "value", "before"), OF_A_GPU)
def test_what_a_provider_leaves_of_a_gpu_costs_the_process(guard, name, write, value, before):
    torch.cuda.init()
    with pytest.raises(StateLostError):
        leaves(guard, partial(write, value))
    write(before)
    assert f"left {name} " in guard.left["mine"]


@pytest.mark.gpu
def test_the_stream_is_put_back(guard):
    before = torch.cuda.current_stream()
    (left,) = leaves(guard, lambda: torch.cuda.set_stream(torch.cuda.Stream()))
    assert left.startswith("left torch.cuda.current_stream ")
    assert torch.cuda.current_stream() == before
