"""A time limit for the import of a provider file, which may compile, in the process of the command itself."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from ...harness.isolation.build_locks import left_locks
from ...harness.isolation.descendants import descendants


@contextmanager
def import_limit(within_s: float) -> Iterator[None]:
    """Raise TimeoutError in what takes longer than `within_s`, and kill what it has started.

    Signals come to the main thread only: in another one there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = set(descendants(os.getpid()))

    def end(number: int, frame: FrameType | None) -> None:
        for pid in set(descendants(os.getpid())) - earlier:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        reason = f"no end within {within_s:g} s; --build-timeout sets the limit"
        raise TimeoutError("; ".join((reason, *left_locks())))

    handler = signal.signal(signal.SIGALRM, end)
    timer = signal.setitimer(signal.ITIMER_REAL, within_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
