"""Whatever a provider changes in the process is noticed, named and put back, or the process ends after it."""

import gc
import threading

import pytest
import torch
from rooflens.harness.isolation.faults import IncorrectError, LeftBehindError, ProviderError, is_lost
from rooflens.harness.isolation.process_state import Guard, settings

from ..leaving_providers import CHANGES, FOR_GOOD, KEPT, PACED, getrlimit

ON_A_GPU = {
    "preferred BLAS library",
    "current GPU",
    "current stream",
    "synchronization debug mode",
    "TunableOp",
    "tuning of TunableOp",
    "share of the GPU's memory",
}


@pytest.fixture
def guard():
    hook = threading.excepthook
    KEPT.clear()
    gc.unfreeze()  # conftest.py has frozen what the tests have imported
    yield Guard()
    gc.freeze()
    threading.excepthook = hook


@pytest.fixture
def put_back():
    """Undo by hand what the guard cannot."""
    yield
    if KEPT:
        KEPT.pop().__exit__(None, None, None)
    torch.set_flush_denormal(False)


def leaves(guard, *changes, provider="mine"):
    """Make changes as code of a provider; an exception is one of them."""
    with guard.around(provider) as left:
        for change in changes:
            if isinstance(change, Exception):
                raise change
            change()
    return left


def values():
    return {setting.name: setting.now() for setting in settings()}


def differing(before, after):
    return {one.name for one in settings() if not one.is_consumed and not one.same(before[one.name], after[one.name])}


def test_each_setting_is_tested():
    consumed = {setting.name for setting in settings() if setting.is_consumed}
    fixed = {one.name for one in settings() if one.name.startswith("RLIMIT_") and getrlimit(one.name) == (0, 0)}
    assert {setting.name for setting in settings()} == {*CHANGES, *PACED, *FOR_GOOD, *consumed, *fixed, *ON_A_GPU}
    assert len(consumed) == 4


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_provider_leaves_is_named_and_put_back(guard, name):
    before = values()
    with guard.around("mine") as left:
        CHANGES[name]()
        assert name in differing(before, values())
    assert any(f"left {name}" in remark for remark in left), left
    assert differing(before, values()) == set()


@pytest.mark.parametrize("name", PACED)
def test_what_decides_on_times_fails_and_is_put_back(guard, name):
    before = values()
    with (
        pytest.raises(ProviderError, match=f"left {name}.* (at .* instead of .*|changed .*): set it back") as caught,
        guard.around(""),
    ):
        PACED[name]()
    assert not is_lost(caught.value)
    assert differing(before, values()) == set()


@pytest.mark.parametrize("name", [name for name in FOR_GOOD if name != "torch.num_interop_threads"])
def test_what_cannot_be_put_back_costs_the_process(guard, put_back, name):
    with (
        pytest.raises(LeftBehindError, match=f"left {name}.*, which cannot be put back") as caught,
        guard.around("mine"),
    ):
        FOR_GOOD[name]()
    assert is_lost(caught.value)


def test_an_exception_keeps_its_class_and_tells_what_was_left(guard):
    before = values()
    with pytest.raises(KeyError) as caught:
        leaves(guard, CHANGES["default dtype"], PACED["nice"], KeyError("its own"))
    assert [note.partition(" at ")[0] for note in caught.value.__notes__] == ["left nice", "left default dtype"]
    assert not is_lost(caught.value)
    assert differing(before, values()) == set()


def test_an_exception_costs_the_process_too_where_something_cannot_be_put_back(guard, put_back):
    with pytest.raises(KeyError) as caught:
        leaves(guard, FOR_GOOD["flush_denormal"], KeyError("its own"))
    assert is_lost(caught.value)


def test_random_states_are_put_back_and_nobody_is_named(guard):
    import random

    import numpy as np

    draws = (random.random, np.random.random, lambda: torch.rand(1).item())
    with guard.around("mine") as left:
        first = [draw() for draw in draws]
        torch.manual_seed(5)
    assert left == []
    assert [draw() for draw in draws] == first


def test_a_thread_that_pins_itself_is_left_alone(guard):
    import os

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


@pytest.mark.gpu
def test_what_a_provider_leaves_of_a_gpu_is_named_and_put_back(guard):
    torch.cuda.init()
    changes = {
        "preferred BLAS library": lambda: torch.backends.cuda.preferred_blas_library("cublaslt"),
        "current stream": lambda: torch.cuda.set_stream(torch.cuda.Stream()),
        "synchronization debug mode": lambda: torch.cuda.set_sync_debug_mode("warn"),
        "TunableOp": lambda: torch.cuda.tunable.enable(True),
        "tuning of TunableOp": lambda: torch.cuda.tunable.tuning_enable(False),
        "share of the GPU's memory": lambda: torch.cuda.set_per_process_memory_fraction(0.5),
    }
    for name, change in changes.items():
        before = values()
        with guard.around("mine") as left:
            change()
        assert any(f"left {name}" in remark for remark in left), (name, left)
        assert differing(before, values()) == set()
