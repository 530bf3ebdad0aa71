"""The devices that a request means: those of this machine, and those of a cluster, which a plugin finds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..harness.sweep.cluster import Cluster, chosen, local_cluster
from ..harness.sweep.devices import PATIENCE_S
from ..shapes.architectures import parse_devices
from ..shapes.plugins import Hook, provided
from ..shapes.request import Request
from ..shapes.run_folder.manifest import StoredFleet


@dataclass(frozen=True, slots=True)
class Target:
    """Those of architecture `arch` among `places`, at most `most` of them (None: all).

    `patience_s` is the time to wait for one when there is none; `stored` is what run.json keeps of it.
    """

    places: Cluster
    arch: str
    most: int | None
    patience_s: float
    stored: StoredFleet


@contextmanager
def target(request: Request, stored_arch: str, should_stop: Callable[[], bool]) -> Iterator[Target]:
    """Find the devices that --jobs, --address, --on and --wait mean; `stored_arch` is that of a run to resume, or "".

    Raises UsageError when there are none such.
    """
    arch, most = parse_devices(request.on or "", "--on")
    slots = int((request.jobs or "").partition(":")[2] or 0) or None
    patience_s = PATIENCE_S if request.wait is None else request.wait
    stored = StoredFleet(address=request.address) if request.address else StoredFleet(slots=slots)
    if request.address:
        with provided(Hook.PLACES)(request.address) as places:
            yield Target(places, chosen(arch, most, places.offered(), stored_arch), most, patience_s, stored)
    else:
        places = local_cluster(request.device or "auto", slots, should_stop)
        yield Target(places, chosen(arch, most, places.offered(), stored_arch), most, patience_s, stored)
