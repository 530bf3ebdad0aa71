"""What a provider may change in the process that all providers share, and how that is undone for its neighbours."""

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import torch

WINDOW_S = 0.02
"""How long a thread that was left behind is watched."""

BUSY = 0.5
"""Share of that window from which on it counts as busy."""


class ProcessState:
    """The working directory, torch's threads and default type, random states, and Python's threads, as they should be.

    `restore` puts back what a provider has changed. What changed under a measurement, or cannot be put back, is told.
    """

    def __init__(self) -> None:
        self._folder = Path.cwd()
        self._threads = torch.get_num_threads()
        self._dtype = torch.get_default_dtype()
        self._seed = torch.initial_seed()
        self._random, self._torch_random = random.getstate(), torch.get_rng_state()
        self._cuda_random: list[Any] = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        self._known = {thread.ident for thread in threading.enumerate()}

    def restore(self) -> str:
        """Undo changes. Returns what was wrong about the times of whoever made them; "" when nothing was."""
        os.chdir(self._folder)
        torch.set_default_dtype(self._dtype)
        random.setstate(self._random)
        if torch.initial_seed() != self._seed and self._cuda_random:
            torch.cuda.set_rng_state_all(self._cuda_random)
        torch.set_rng_state(self._torch_random)
        found = torch.get_num_threads()
        if found != self._threads:
            torch.set_num_threads(self._threads)
            return f"left torch with {found} threads instead of {self._threads}; set them back in the same call"
        return ""

    def busy_thread(self) -> str:
        """Name a new Python thread that uses a core although nobody waits for it; "" when there is none.

        Only Python's threads are looked at: those of OpenMP spin for a while by design.
        """
        for thread in threading.enumerate():
            if thread.ident in self._known or thread.native_id is None:
                continue
            before, began = _runnable_seconds(thread.native_id), time.monotonic()
            time.sleep(WINDOW_S)
            if _runnable_seconds(thread.native_id) - before > BUSY * (time.monotonic() - began):
                return f"left a thread behind that keeps a core busy: {thread.name}"
            self._known.add(thread.ident)
        return ""


def _runnable_seconds(thread: int) -> float:
    """Time that a thread of this process ran or waited for a core, by Linux; 0 elsewhere, and once it has ended.

    On a busy machine a thread that spins gets a part of a core only.
    """
    try:
        # In nanoseconds: the ticks of `stat` are too coarse for a short look.
        ran, waited, _ = Path(f"/proc/self/task/{thread}/schedstat").read_text().split()
        return (int(ran) + int(waited)) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0
