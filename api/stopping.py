"""Ctrl-C and SIGTERM as a request to stop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop; the second one takes effect at once.

    Signals reach the main thread alone: in another one, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    requested: list[int] = []

    def note(number: int, frame: object) -> None:
        if requested:
            raise KeyboardInterrupt
        requested.append(number)

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(requested)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
