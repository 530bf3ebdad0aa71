"""Several devices: whatever happens to them, every part is measured once, or is said to be left."""

import time
from collections import Counter
from contextlib import contextmanager
from threading import Event, Lock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rooflens.harness.storage.tables import StorageError
from rooflens.harness.sweep import devices as module
from rooflens.harness.sweep.cluster import Here, Place, Target
from rooflens.harness.sweep.deadline import Deadline, OutOfTimeError
from rooflens.harness.sweep.devices import MOST_FAULTS, Devices
from rooflens.harness.sweep.part_queue import PartQueue
from rooflens.harness.sweep.supervisor import PlaceLostError
from rooflens.shapes.errors import Interrupted, RooflensError

from ..scripted_workers import Silent
from .test_part_queue import items

PARTS = items(3, 4)
LOST, FAILED = PlaceLostError("its process died"), RooflensError("no space left")
HANGS = object()
"""It goes on until it is told to stop."""


def place(index=0, host="one", arch="sm90"):
    return Place(host, arch, index, 8, f"cuda:{index}")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "POLL_S", 0.002)
    monkeypatch.setattr(module, "LOOK_S", 0.0)


class Trial:
    """Devices that do what `script(step, place, part)` says: raise what it returns, if anything."""

    is_here = False

    def __init__(self, places, script=lambda step, place, part: None, device=lambda place: place):
        self.places, self.script, self.identify = places, script, device
        self.measured, self.log, self.observer, self._lock = [], [], Silent(), Lock()

    def offered(self):
        return Counter(place.arch for place in self.places)

    def now(self):
        return self.places

    @contextmanager
    def entered(self, place, deadline):
        yield Here()

    @contextmanager
    def station(self, place, machine, observer, deadline):
        self.do("open", place, deadline)
        yield self.identify(place), lambda part: self.do("measure", place, deadline, part)
        self.do("finish", place, deadline)
        self.do("close", place, deadline)

    def do(self, step, place, deadline, part=None):
        with self._lock:
            fate = self.script(step, place, part)
        if isinstance(fate, tuple):
            fate[0].wait(10)
            raise fate[1]
        if isinstance(fate, Event):
            fate.wait(10)
        elif fate is HANGS:
            while not deadline.check():
                time.sleep(0.002)
            raise Interrupted("stopped")
        elif fate:
            raise fate
        with self._lock:
            self.log.append((step, place))
            if part:
                self.measured.append((place, part))

    def run(self, parts=PARTS, deadline=None, begun=None, most=None, patience_s=0.05, **how):
        target, queue = Target(self, "sm90", most, patience_s), PartQueue(parts, begun)
        self.devices = Devices(target, queue, self.station, self.observer, deadline or Deadline(), **how)
        self.devices.measure()
        return self

    @property
    def parts(self):
        return sorted(part.key for _, part in self.measured)


ALL = sorted(part.key for part in PARTS)


def test_every_part_is_measured_once_and_every_device_takes_its_last_readings():
    trial = Trial([place(0), place(1), place(0, "two")]).run()
    assert trial.parts == ALL
    assert Counter(step for step, _ in trial.log)["finish"] == Counter(step for step, _ in trial.log)["close"] > 0
    assert trial.devices.unmeasured == ""


def test_no_more_devices_than_parts_or_than_asked_for_and_none_of_another_architecture():
    many = [place(0, arch="gfx950"), *(place(index) for index in range(20))]
    opened = {where for step, where in Trial(many).run(PARTS[:3]).log if step == "open"}
    assert len(opened) <= 3
    assert {where.arch for where in opened} == {"sm90"}
    assert len({where for step, where in Trial(many).run(most=2).log if step == "open"}) <= 2


def test_a_place_that_is_lost_again_and_again_is_left_alone():
    tried, enough = [], Event()

    def script(step, where, part):
        if step != "measure" or where == place(1):
            return enough if step == "measure" else None
        tried.append(part)
        if len(tried) == MOST_FAULTS:
            enough.set()
        return LOST

    trial = Trial([place(0), place(1)], script).run()
    assert trial.parts == ALL
    assert len(tried) == MOST_FAULTS
    assert any("is lost: its process died; " in text and text.endswith("again") for text in trial.observer.remarks)
    assert any(f"it was lost {MOST_FAULTS} times in a row" in text for text in trial.observer.remarks)


def test_a_part_that_ends_every_device_is_left_out():
    bad = PARTS[4]
    trial = Trial([place(index) for index in range(4)], lambda step, where, part: LOST if part == bad else None).run()
    assert trial.parts == [key for key in ALL if key != bad.key]
    assert trial.devices.unmeasured.startswith("1 problems crashed every sm90")


def test_an_error_takes_its_device_out_and_no_other():
    def script(step, where, part):
        if where == place(0) and step == "measure":
            return FAILED
        return RooflensError("no provider blas") if where == place(1) and step == "open" else None

    trial = Trial([place(0), place(1), place(2)], script).run()
    assert trial.parts == ALL
    assert {where for where, _ in trial.measured} == {place(2)}


@pytest.mark.parametrize("step", ["open", "measure"])
def test_where_no_device_can_measure_the_reason_is_the_error_without_delay(step):
    with pytest.raises(RooflensError, match="no sm90 can measure: no space left"):
        Trial([place(0), place(1)], lambda at, where, part: FAILED if at == step else None).run(patience_s=600)


def test_a_disk_that_refuses_ends_all_also_where_a_loss_is_noted():
    with pytest.raises(StorageError, match="full"):
        Trial([place(0), place(1)], lambda step, *_: StorageError("full") if step == "measure" else None).run()

    def note(text):
        raise StorageError("full")

    with pytest.raises(StorageError, match="full"):
        Trial([place(0)], lambda step, *_: LOST if step == "measure" else None).run(note=note, patience_s=600)


@pytest.mark.parametrize("error", [StorageError("full"), ValueError("ours"), Interrupted("during --setup")])
@pytest.mark.parametrize("step", ["open", "measure", "finish"])
def test_what_ends_all_stops_those_that_measure_at_once_and_is_raised(error, step):
    hung, both, opened = Event(), Event(), set()

    def script(at, where, part):
        opened.update([where])
        if len(opened) == 2:
            both.set()
        if at != step:
            return both if at == "measure" else None
        if where == place(0):
            hung.set()
            return HANGS
        return hung, error

    began = time.monotonic()
    trial = Trial([place(0), place(1)], script)
    with pytest.raises(type(error), match=str(error)):
        trial.run()
    assert time.monotonic() - began < module.STOP_S / 2
    assert not any(thread.is_alive() for thread in trial.devices._threads)


def test_a_part_that_time_ends_is_left_and_nothing_is_concluded_from_it():
    asked, deadline = [], Deadline()

    def script(step, where, part):
        if part == PARTS[-1]:
            deadline.at = time.monotonic() + 0.05
            return OutOfTimeError()
        return None

    trial = Trial([place(0)], script)
    with pytest.raises(OutOfTimeError):
        trial.run(deadline=deadline, more=lambda: asked.append(1) or (), patience_s=600)
    assert len(trial.measured) < len(PARTS)
    assert not asked


def test_when_all_devices_are_gone_what_is_left_is_said():
    seen = []
    trial = Trial([place(0)], lambda step, where, part: (seen.append(step), LOST if len(seen) > 5 else None)[1]).run()
    left = len(PARTS) - len(trial.parts)
    assert 0 < left < len(PARTS)
    assert trial.devices.unmeasured == f"no sm90 is left for {left} problems"


def test_nobody_waits_for_a_device_of_this_machine_that_failed():
    trial = Trial([place(0)], lambda step, *_: FAILED if step == "measure" and trial.measured else None)
    trial.is_here = True
    trial.run(patience_s=600)
    assert trial.devices.unmeasured == f"no sm90 is left for {len(PARTS) - 1} problems"


@pytest.mark.parametrize("count", [2, 3])
def test_of_several_places_with_one_device_one_measures(count):
    entered = []  # both are open before one of them has done all
    trial = Trial([place(index) for index in range(count)], device=lambda where: "GPU-1")
    trial.script = lambda step, where, part: entered.append(step) if step == "open" else None
    trial.run()
    assert len({where for where, _ in trial.measured}) == 1


def test_what_a_device_has_begun_it_completes():
    owners = {part.key: place(index % 2) for index, part in enumerate(PARTS)}
    trial = Trial([place(0), place(1)])
    trial.run(begun=owners)
    assert (
        all(owners[part.key] == where for where, part in trial.measured)
        or len({where for where, _ in trial.measured}) == 1
    )


def test_more_parts_are_measured_when_everything_else_is():
    extra, asked = items(5, 1)[4:], []

    def more():
        asked.append(len(trial.measured))
        return tuple(extra) if len(asked) == 1 else ()

    trial = Trial([place(0), place(1)])
    trial.run(more=more)
    assert asked[0] == len(PARTS)
    assert trial.parts == sorted([*ALL, *(part.key for part in extra)])


def test_a_stop_and_the_end_of_the_time_end_what_waits():
    trial = Trial([place(0), place(1)])
    with pytest.raises(Interrupted):
        trial.run(deadline=Deadline(should_stop=lambda: bool(trial.measured)), more=lambda: tuple(items(1, 1)))
    late = Trial([place(0), place(1)])
    with pytest.raises(OutOfTimeError):
        late.run(deadline=Deadline(0.0))
    assert "finish" not in {step for step, _ in (*trial.log, *late.log)}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([None] * 12 + [LOST, FAILED]), max_size=60), st.integers(1, 6))
def test_under_any_faults_parts_are_measured_once_and_the_rest_is_told(fates, count):
    left = iter(fates)
    trial = Trial([place(index) for index in range(count)], lambda *_: next(left, None))
    error = None
    try:
        trial.run()
    except RooflensError as found:
        error = found
    assert len(set(trial.parts)) == len(trial.parts)
    assert (trial.parts == ALL) == (error is None and not trial.devices.unmeasured)
