"""A comparison on several devices: each measures one part after the other, with the versions where it is."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ...shapes.protocol import Protocol
from ..storage.manifest import device_of
from ..sweep.cluster import Machine, Place, Target
from ..sweep.deadline import Deadline, OutOfTimeError
from ..sweep.devices import Devices, Station
from ..sweep.events import Doing, Observer, Remarked
from ..sweep.part_queue import PartQueue
from ..sweep.supervisor import SupervisedWorker
from ..worker.messages import Setup
from .checkouts import versions_there
from .environments import PreparedVersion
from .runner import LOG, CompareRunner


def measured_on_devices(
    runner: CompareRunner, target: Target, deadline: Deadline, observer: Observer
) -> tuple[bool, str]:
    """Measure what is missing; return whether all is complete, and what is not because devices are missing.

    Versions on this machine are made once, for all of its devices, and stay.
    """
    here: dict[str, PreparedVersion] = {}

    @contextmanager
    def station(place: Place, machine: Machine, tell: Observer, deadline: Deadline) -> Iterator[Station]:
        tell(Doing("find the device"))
        setup = Setup(place.device, Protocol(), (), ())
        worker = SupervisedWorker(setup, runner.folder / LOG, deadline.check, start=machine.start)
        worker.kill()
        key = device_of(place.found(worker.ready.device))
        versions = here
        if machine.call:
            tell(Remarked("set the versions up"))
            versions, log = machine.call(versions_there, runner.what, runner.scratch.name)
            runner.note(log)
        device = " ".join(map(str, key)) if isinstance(key, tuple) else str(key)
        yield device, lambda part: runner.measure(part, versions, deadline, device, place, machine, tell)

    with runner.opened(), ExitStack() as held:
        if not runner.open_parts():
            return True, ""
        queue = PartQueue(runner.open_parts(), runner.begun())
        devices = Devices(*(target, queue, station, observer, deadline), noun="parts of the suite", note=runner.note)
        try:
            if target.places.is_here:
                here |= runner.checkouts(deadline).make()
            else:
                held.enter_context(runner.records_of_nodes())
            devices.measure()
        except OutOfTimeError:
            return False, devices.unmeasured
        return not runner.open_parts(), devices.unmeasured
