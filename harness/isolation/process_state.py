"""Lets no provider run in a process whose settings, threads or children another provider has left changed."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from weakref import WeakKeyDictionary

from . import settings
from .descendants import birth, children, descendants, end, name, unattended
from .faults import IncorrectError, LeftBehindError, ProviderError, StateLostError, describe, mark_lost

WINDOW_S = 0.02
"""How long a thread that was left behind is watched."""

BUSY = 0.5
"""Share of that window from which on it counts as busy."""


Guarded = Callable[[], AbstractContextManager[object]]
"""Makes a context for the code of one provider: `Guard.around`."""


class Guard:
    """Checks settings, threads and processes after the code of providers.

    `alone` names the provider after which this process measures no other: it may leave settings changed, and finds them
    as it left them. `left` says what others have left, which are to be measured alone from then on.
    """

    def __init__(self) -> None:
        self._provider = ""
        self.alone = ""
        self.left: dict[str, str] = {}
        self._owners = WeakKeyDictionary(dict.fromkeys(threading.enumerate(), ""))
        self._raised: dict[str, str] = {}
        self._started: dict[tuple[int, str], str] = {}
        self._report_thread = threading.excepthook
        threading.excepthook = self._thread_raised

    @contextmanager
    def around(self, provider: str) -> Iterator[list[str]]:
        """Run code of `provider`, then restore or compare what it can have changed, also after an exception.

        The list at the end says what was restored. Raises LeftBehindError for what times depend on, and for a thread
        that keeps using a core; StateLostError for other settings, with which the provider is to be measured alone; and
        ProviderError where a thread of the provider raised an exception. An exception of the provider gets the same
        texts as notes. In all cases but the last, no other provider may be timed in this process.
        """
        before = settings.now()
        outer, self._provider = self._provider, provider
        remarks: list[str] = []
        try:
            yield remarks
        except Exception as error:
            fatal, kept, undone = self._check(before)
            for text in (*fatal, *kept, *undone):
                error.add_note(text)
            if fatal or (kept and provider != self.alone):
                mark_lost(error)
            # What a thread did not compute is missing in the output: report the cause, not the symptom.
            elif isinstance(error, IncorrectError):
                self._raise_for_threads(provider)
            raise
        else:
            fatal, kept, undone = self._check(before)
            if fatal:
                raise LeftBehindError("; ".join((*fatal, *kept)))
            if kept and provider != self.alone:
                raise StateLostError
            self._raise_for_threads(provider)
            remarks += undone
        finally:
            self._provider = outer

    def _check(self, before: settings.Values) -> tuple[list[str], list[str], list[str]]:
        """Restore what is to be restored, and check new threads and processes.

        Return what was left, in words: what times depend on, settings that stay changed, and what was undone.
        """
        busy = self._busy_thread()
        restored, rest = settings.restore(before)
        kept = [text for name, text in rest.items() if name not in settings.PACING]
        fatal = [f"{text}: set it back in the same call" for name, text in rest.items() if name in settings.PACING]
        fatal = [*filter(None, [busy]), *fatal]
        if (fatal or kept) and self._provider != self.alone:
            self.left[self._provider] = "; ".join((*fatal, *kept))
        return fatal, kept, [*restored.values(), *self._end_orphans()]

    def _end_orphans(self) -> list[str]:
        """End processes of providers that nothing in this process can await; say whose they were.

        A process that a library has a handle of, such as a pool of compilers, stays until the worker ends.
        """
        for pid in descendants(os.getpid()):
            self._started.setdefault((pid, birth(pid)), self._provider)
        remarks = []
        for pid in unattended(children(os.getpid())):
            owner = self._started.pop((pid, birth(pid)), self._provider)
            by = "" if owner == self._provider else f", which {owner} had started"
            remarks.append(f"left a process running: {name(pid)}{by}")
            end(pid)
        return remarks

    def _thread_raised(self, raised: threading.ExceptHookArgs) -> None:
        """Attribute the exception that ended a thread to the provider that started it."""
        self._report_thread(raised)  # into the worker's log
        owner = self._owners.get(raised.thread, self._provider) if raised.thread else self._provider
        if owner and raised.exc_value is not None:
            self._raised.setdefault(owner, f"a thread that it started raised {describe(raised.exc_value)}")

    def _raise_for_threads(self, provider: str) -> None:
        if message := self._raised.pop(provider, ""):
            raise ProviderError(message)

    def threads_s(self) -> float:
        """Processor time that Python threads of the provider in `around` have used so far, on Linux; 0 elsewhere."""
        used = 0.0
        for thread in threading.enumerate():
            if (
                self._owners.get(thread, self._provider) == self._provider
                and thread.native_id
                and sys.platform == "linux"
            ):
                with suppress(OSError):  # it has ended
                    # As pthread_getcpuclockid() makes the clock of a thread, which must not have ended for that.
                    used += time.clock_gettime((~thread.native_id << 3) | 6)
        return used

    def _busy_thread(self) -> str:
        """Name a new Python thread that uses a core although nothing waits for it; "" when there is none.

        Only Python's threads are checked: those of OpenMP spin for a while by design.
        """
        for thread in threading.enumerate():
            if thread in self._owners or thread.native_id is None:
                continue
            self._owners[thread] = self._provider
            before, began = _runnable_seconds(thread.native_id), time.monotonic()
            time.sleep(WINDOW_S)
            if _runnable_seconds(thread.native_id) - before > BUSY * (time.monotonic() - began):
                return f"left a thread behind that keeps a core busy: {thread.name}"
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
