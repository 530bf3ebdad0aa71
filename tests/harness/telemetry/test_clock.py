"""Times keep the order of what happened, however the machine's clock is set."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from rooflens.harness.storage.store import RunStore
from rooflens.harness.sweep.in_child import in_child
from rooflens.harness.telemetry.clock import CLOCK, Clock
from rooflens.harness.timing.samples import Samples
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.run_folder.manifest import Manifest

NOON = datetime(2026, 3, 8, 12, tzinfo=UTC)


class Machine:
    """A clock that can be set, and one that cannot."""

    def __init__(self, wall):
        self.wall, self.since_boot = wall.timestamp(), 4000.0

    def pass_by(self, **much):
        seconds = timedelta(**much).total_seconds()
        self.wall, self.since_boot = self.wall + seconds, self.since_boot + seconds

    def clock(self):
        return Clock(lambda: self.wall, lambda: self.since_boot)


def test_a_clock_that_is_set_moves_no_time_of_a_call():
    machine = Machine(NOON)
    clock = machine.clock()
    machine.pass_by(minutes=5)
    assert clock.now("seconds") == "2026-03-08T12:05:00+00:00"
    machine.wall -= 3600
    machine.pass_by(milliseconds=1500)
    assert clock.now() == "2026-03-08T12:05:01.500+00:00"
    machine.wall += 86400
    assert clock.now() == "2026-03-08T12:05:01.500+00:00"


def test_what_goes_on_goes_on_after_what_is_stored_and_else_by_the_clock():
    machine = Machine(NOON)
    clock = machine.clock()
    clock.go_on_after(NOON.timestamp() + 90)
    assert clock.now("seconds") == "2026-03-08T12:01:30+00:00"
    machine.pass_by(seconds=1)
    assert clock.now("seconds") == "2026-03-08T12:01:31+00:00"
    clock.go_on_after(0)
    clock.go_on_after(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
    assert clock.now("seconds") == "2026-03-08T12:01:31+00:00"


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/St_Johns", "America/New_York"])
def test_times_are_utc_in_every_zone_and_over_a_change_of_its_clock(monkeypatch, zone):
    """New York's clocks go forward at 07:00 UTC on 8 March 2026, and back at 06:00 UTC on 1 November."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for change in (datetime(2026, 3, 8, 7, tzinfo=UTC), datetime(2026, 11, 1, 6, tzinfo=UTC)):
            machine = Machine(change - timedelta(minutes=30))
            clock = machine.clock()
            told = []
            for _ in range(3):
                told.append(clock.now("minutes"))
                machine.pass_by(minutes=30)
            assert told == [f"{change + timedelta(minutes=minutes):%Y-%m-%dT%H:%M}+00:00" for minutes in (-30, 0, 30)]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_run_that_goes_on_with_the_clock_set_back_stores_later_times(tmp_path, monkeypatch):
    ahead = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    row = {"cell_id": "c", "round": 0, "verdict": "passed", "started_at": ahead.isoformat(), "elapsed_s": 20.0}
    with RunStore.create(tmp_path / "run") as store:
        store.write_manifest(Manifest(id="run"))
        store.commit(row, Samples((1e-3,)))
    monkeypatch.setattr(CLOCK, "origin_s", CLOCK.origin_s)
    with RunStore.reopen(tmp_path / "run") as store:
        store.event("going on")
    stamp = (tmp_path / "run" / "events.log").read_text().split()[0]
    assert ahead + timedelta(seconds=20) <= datetime.fromisoformat(stamp) < ahead + timedelta(seconds=80)


def origin_s(begin):
    return CLOCK.origin_s


def test_a_worker_has_the_clock_of_its_parent(monkeypatch):
    """Otherwise a restart after a fault would begin by the machine's clock, which may have been set meanwhile."""
    monkeypatch.setattr(CLOCK, "origin_s", 12.5)
    assert in_child(origin_s, (), Protocol(), str) == 12.5
