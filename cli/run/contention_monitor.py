"""Progress of a run that also warns, at its start, of others at work: what the doctor would say, without its survey."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from typing import IO, Self

from ...api.progress import Progress
from ...harness.machine.advice_device import shared_device
from ...harness.machine.advice_host import busy_host
from ...harness.storage.store import RunStore
from ...harness.sweep.events import Event, Finished, Started
from ...harness.telemetry import linux
from ...harness.telemetry.host import WINDOW_S, HostTelemetry
from ...shapes.run_folder.columns import TELEMETRY
from ...shapes.run_folder.manifest import Manifest
from ...shapes.verdict import Verdict


class HostLoad:
    """What other processes do on the cores since its creation. It needs no torch, so that a run can create it first."""

    def __init__(
        self,
        host: HostTelemetry | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._host = host or HostTelemetry()
        self._clock, self._sleep = clock, sleep
        self._since = clock()

    def busy_elsewhere(self) -> float | None:
        """Share of all cores that others used since; what is missing of the shortest window is waited for."""
        self._sleep(max(0.0, WINDOW_S + 0.01 - (self._clock() - self._since)))
        return self._host.read().busy_elsewhere


def _quietly(action: Callable[[], object]) -> None:
    """Ignore a failure: the action is repeated where it is needed, and fails there."""
    with suppress(Exception):
        action()


class ContentionMonitor(Progress):
    """Observer of a run. `manifest` is what becomes run.json: it names the device as soon as the worker is ready."""

    def __init__(
        self,
        stream: IO[str],
        manifest: Manifest,
        store: RunStore,
        cores: HostLoad,
        deadline: float | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """`meanwhile` is done while the worker starts, and is over before anything is measured.

        Python ends only after it: a daemon thread that imports while the interpreter goes down can crash it.
        """
        super().__init__(stream, deadline=deadline)
        self._meanwhile = Thread(target=_quietly, args=(meanwhile,))
        self._manifest, self._store, self._cores = manifest, store, cores
        self._facts = linux.describe()
        self._elsewhere: float | None = None
        self._looked_at_device = False

    def __enter__(self) -> Self:
        self._elsewhere = self._cores.busy_elsewhere()  # before the worker, whose work would be taken for others'
        super().__enter__()
        self._meanwhile.start()
        return self

    def __call__(self, event: Event) -> None:
        """Show what has happened; warn of others on the host once the device is known, and then on the device."""
        super().__call__(event)
        if isinstance(event, Started):
            self._meanwhile.join()
            if event.finished < event.total and self._manifest.device:
                self._look_at_host()
        elif isinstance(event, Finished) and event.verdict is Verdict.PASSED and not self._looked_at_device:
            self._looked_at_device = True
            self._look_at_device()

    def _look_at_host(self) -> None:
        is_gpu = not self._manifest.of_device.is_cpu
        elsewhere = None if is_gpu else self._elsewhere
        # The load of the last minute may be that of our own last run: a look at the present is worth more.
        facts = self._facts if elsewhere is None else replace(self._facts, load_1min=None)
        for one in busy_host(facts, elsewhere, is_gpu):
            self.remark(f"warning: {one.text}")

    def _look_at_device(self) -> None:
        """Warn of other processes on it, known from the telemetry of the first measured unit."""
        seen = [row["other_processes"] for row in self._store.rows(TELEMETRY)[-1:]]
        if count := max((int(text) for text in seen if text), default=0):
            self.remark(f"warning: {shared_device(count).text}")
