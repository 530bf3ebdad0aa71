"""Restores what a provider changes in the shared process before any other provider's code runs."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from .descendants import birth, children, descendants, end, name, unattended
from .faults import IncorrectError, LeftBehindError, LeftForGoodError, ProviderError, describe, mark_lost
from .process_settings import process_settings
from .setting import ProcessSetting
from .torch_settings import torch_settings

WINDOW_S = 0.02
"""How long a thread that was left behind is watched."""

BUSY = 0.5
"""Share of that window from which on it counts as busy."""


Guarded = Callable[[], AbstractContextManager[object]]
"""Makes a context for the code of one provider: `Guard.around`."""


def settings() -> tuple[ProcessSetting, ...]:
    """Return all settings that are restored, in the order in which they are written back."""
    return (*torch_settings(), *process_settings())


@dataclass(frozen=True, slots=True)
class Left:
    """What a provider changed: what was restored, what of that affects times, and what could not be restored.

    Of the last, `is_bearable` says that the provider itself can be timed with it.
    """

    restored: tuple[str, ...]
    paced: tuple[str, ...]
    lost: tuple[str, ...]
    is_bearable: bool

    @property
    def all(self) -> tuple[str, ...]:
        """The most important first."""
        return self.lost + self.paced + self.restored


class Guard:
    """Restores `settings`, and checks threads and processes, after the code of providers.

    `alone` names the provider after which this process measures no other: it may leave what cannot be put back.
    """

    def __init__(self) -> None:
        self._settings = settings()
        self._provider = ""
        self.alone = ""
        self._owners = WeakKeyDictionary(dict.fromkeys(threading.enumerate(), ""))
        self._raised: dict[str, str] = {}
        self._started: dict[tuple[int, str], str] = {}
        self._report_thread = threading.excepthook
        threading.excepthook = self._thread_raised

    @contextmanager
    def around(self, provider: str) -> Iterator[list[str]]:
        """Run code of `provider`, then restore what it has changed, also after an exception.

        The list at the end says what was restored. Raises ProviderError if times depend on it, or if a thread of the
        provider raised an exception, and LeftBehindError for what cannot be restored (LeftForGoodError, if that is all)
        and for a thread that keeps using a core: no other provider may be timed in this process then. An exception of
        the provider gets the same texts as notes.
        """
        before = [setting.now() for setting in self._settings]
        outer, self._provider = self._provider, provider
        remarks: list[str] = []
        try:
            yield remarks
        except Exception as error:
            left = self._put_back(before)
            for text in left.all:
                error.add_note(text)
            if left.lost:
                mark_lost(error)
            # What a thread did not compute is missing in the output: report the cause, not the symptom.
            if isinstance(error, IncorrectError) and not left.lost:
                self._raise_for_threads(provider)
            raise
        else:
            left = self._put_back(before)
            if left.lost and not (left.is_bearable and provider == self.alone):
                what = "; ".join(left.all)
                raise LeftForGoodError(provider, what) if left.is_bearable else LeftBehindError(what)
            self._raise_for_threads(provider)
            if left.paced:
                raise ProviderError(f"{'; '.join(left.all)}: set it back in the same call")
            remarks += left.lost + left.restored
        finally:
            self._provider = outer

    def _put_back(self, before: list[object]) -> Left:
        """Restore every setting, and check new threads and processes."""
        restored: list[str] = []
        paced: list[str] = []
        lost = [busy] if (busy := self._busy_thread()) else []
        is_bearable = not lost
        for setting, saved in zip(self._settings, before, strict=True):
            if setting.is_consumed:
                setting.write_back(saved)
                continue
            found = setting.now()
            if setting.same(saved, found):
                continue
            text = f"left {setting.difference(saved, found)}"
            if not setting.write_back(saved):
                lost.append(f"{text}, which cannot be put back")
                is_bearable = is_bearable and not setting.paces
            else:
                (paced if setting.paces else restored).append(text)
        restored += self._end_orphans()
        return Left(tuple(restored), tuple(paced), tuple(lost), is_bearable)

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
