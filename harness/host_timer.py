"""The host timer: the wall clock around launch and synchronize. The only timer of the CPU."""

from .accelerator import Action, Host
from .timer import Batch, Subject, nothing


class HostTimer:
    """Wall clock around launch and synchronize, from an idle device to an idle device."""

    name = "host"
    remark = ""
    launches_per_sample = 1

    def __init__(self, host: Host, subject: Subject) -> None:
        self._host, self._subject = host, subject
        self.resolution_s = host.resolution_s

    def batch(self, count: int, meanwhile: Action = nothing) -> Batch:
        """Time each launch on its own."""
        now, synchronize, subject = self._host.now, self._host.synchronize, self._subject
        before, launch = subject.before, subject.launch
        times = []
        for _ in range(count):
            before()
            synchronize()
            start = now()
            launch()
            synchronize()
            times.append(now() - start)
        meanwhile()
        return Batch(tuple(times))

    def objection(self) -> str:
        """Never object."""
        return ""
