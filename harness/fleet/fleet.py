"""Drive a fleet: hire stations where there is room, hand out jobs, land what comes home; a fault loses nothing."""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from ...shapes.errors import Interrupted, RooflensError, UsageError
from ..sweep.session import END_S
from .arch_queue import Landed, Lane
from .cluster import Arrived, Cluster, Event, Gone, Refused, Sign
from .device_registry import device_of
from .device_worker import OPENING_S
from .jobs import AnyJob, Listener, jobs_of, units_of
from .protocol import Order, Slot
from .result_store import Landing

POLL_S = 0.25

LOOK_S = 2.0
"""How often it is asked what places there are, and what the stations do."""

GRACE_S = 120.0
"""A station may be silent for so long beyond the time limit of a cell: a worker that restarts says nothing."""

PATIENCE_S = 60.0
"""For so long a place for the remaining jobs is waited for, when there is none."""

MOST_FAULTS = 2
"""Stations in a row that a place may lose without bringing anything home, before it is left alone."""

MOST_NAMED = 5
"""Problems that are named where many are left out."""

STOP_S = 20.0
"""For so long stations are waited for that were asked to stop."""


class Observer(Listener, Protocol):
    """Whoever shows the progress of a fleet."""

    def started(self, total_units: int, finished_units: int) -> None:
        """Tell how many units there are, and how many are stored already."""

    def doing(self, what: str) -> None:
        """Tell what the fleet does as a whole."""

    def looked(self, underway: int, stations: Mapping[str, int], left_s: float | None, what: str) -> None:
        """Tell the units that are measured but not home, stations at work by architecture, time left, one's doing."""

    def grown(self, total_units: int) -> None:
        """Tell that cells were added to the plan."""

    def remark(self, text: str) -> None:
        """Pass on something worth a line."""


class State(Enum):
    """What a station does."""

    OPENING = "opening"
    IDLE = "idle"
    BUSY = "busy"
    CLOSING = "closing"


@dataclass(slots=True)
class _Post:
    """A station as the fleet knows it. `device` names its device once it is open."""

    lane: Lane
    name: str
    state: State = State.OPENING
    device: Hashable = None
    job: AnyJob | None = None
    sign: int = -1
    alive_at: float = field(default_factory=time.monotonic)


class Fleet:
    """One invocation of `rooflens fleet run`, or of `rooflens run --jobs`. `deadline` is a monotonic time."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        cluster: Cluster,
        observer: Observer,
        should_stop: Callable[[], bool] = lambda: False,
        deadline: float | None = None,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lanes = {lane.arch: lane for lane in lanes}
        self._cluster, self._observer = cluster, observer
        self._should_stop, self._deadline = should_stop, deadline
        self._patience_s, self._clock = patience_s, clock
        self._posts: dict[Slot, _Post] = {}
        self._idle: dict[Slot, _Post] = {}
        self._counts: Counter[tuple[str, State]] = Counter()
        self._devices: dict[str, set[Hashable]] = {arch: set() for arch in self._lanes}
        self._faults: Counter[Slot] = Counter()
        self._left_alone: set[Slot] = set()
        self._exhausted, self._opened, self._told = set[str](), set[str](), set[str]()
        self._lonely_since: dict[str, float] = {}
        self._looked_at, self._hired = -1.0, 0

    def run(self) -> bool:
        """Measure what is missing. True when all of it is at home; False when time, devices or patience ran out.

        Raises Interrupted on Ctrl-C, and RooflensError when no station of an architecture can be opened. What came
        home stays, whatever happens.
        """
        self._begin()
        try:
            while [lane for lane in self._lanes.values() if self._is_open(lane)]:  # all of them are asked for more
                self._stop_if_asked()
                self._look()
                self._hand_out()
                for event in self._cluster.wait(POLL_S):
                    self._handle(event)
            self._close()
        except _OutOfTimeError:
            self._note("stopped at --max-time")
            self._bring_home()
        except Interrupted:
            self._note("interrupted")
            self._bring_home()
            raise
        except RooflensError as error:
            self._note(f"ended: {error}")
            raise
        finally:
            for slot in list(self._posts):
                self._dismiss(slot)
        return not any(lane.landing.open_jobs() for lane in self._lanes.values())

    def left_out(self) -> list[str]:
        """Say what was not measured because devices are missing, or were lost over it; [] when nothing was."""
        said = [lane.abandoned for lane in self._lanes.values() if lane.abandoned]
        for lane in self._lanes.values():
            if gone := lane.dealer.given_up:
                names = ", ".join(map(str, gone[:MOST_NAMED])) + (", ..." if len(gone) > MOST_NAMED else "")
                said.append(f"{len(gone)} {lane.jobs_are} ended every {lane.arch} that tried ({names})")
        return said

    def _begin(self) -> None:
        total = missing = 0
        for lane in self._lanes.values():
            jobs = lane.landing.open_jobs()
            lane.dealer.add(jobs, lane.landing.begun)
            for key, seconds in lane.landing.done.items():
                lane.forecast.finished(lane.landing.jobs[key], seconds)
            lane.forecast.add(jobs)
            total += units_of(lane.landing.jobs.values())
            missing += units_of(jobs)
        self._observer.started(total, total - missing)
        self._observer.doing("start the stations: import torch and the providers, find the devices")

    def _is_open(self, lane: Lane) -> bool:
        """Tell whether there is something to wait for; a lane that is done is asked for more."""
        if lane.abandoned:
            return False
        return bool(len(lane.dealer) or self._counts[lane.arch, State.BUSY]) or self._more(lane)

    def _more(self, lane: Lane) -> bool:
        if lane.more is None or lane.arch in self._exhausted or len(lane.landing.done) < len(lane.landing.jobs):
            return False
        assert isinstance(lane.landing, Landing)
        lane.landing.write_manifest()
        fresh = [job for job in jobs_of(lane.more(), lane.brief.rounds) if job.key not in lane.landing.jobs]
        lane.landing.add(fresh)
        lane.dealer.add(fresh)
        lane.forecast.add(fresh)
        if not fresh:
            self._exhausted.add(lane.arch)
        else:
            self._observer.grown(sum(units_of(one.landing.jobs.values()) for one in self._lanes.values()))
        return bool(fresh)

    def _turn(self, slot: Slot, post: _Post, state: State) -> None:
        """Note what a station does now: with a thousand of them, nobody counts them anew at every step."""
        self._counts[post.lane.arch, post.state] -= 1
        self._counts[post.lane.arch, state] += 1
        post.state, post.alive_at = state, self._clock()
        self._idle.pop(slot, None)
        if state is State.IDLE:
            self._idle[slot] = post

    def _stop_if_asked(self) -> None:
        if self._should_stop():
            raise Interrupted("stopped")
        if self._deadline is not None and self._clock() >= self._deadline:
            raise _OutOfTimeError

    def _look(self) -> None:
        """From time to time: hire where there is room, see who hangs, and show how far all are."""
        now = self._clock()
        if self._looked_at >= 0 and now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        self._hire()
        signs = self._cluster.signs()
        for slot, post in list(self._posts.items()):
            if (sign := signs.get(slot)) and sign.count != post.sign:
                post.sign, post.alive_at = sign.count, now
            brief = post.lane.brief
            limit = brief.opening_s if post.state is State.OPENING else brief.silence_s + GRACE_S
            if post.state is not State.IDLE and now - post.alive_at > limit:
                self._lose(slot, f"gave no sign for {limit:.0f} s")
        self._show(signs)
        self._abandon_if_alone(now)

    def _show(self, signs: Mapping[Slot, Sign]) -> None:
        busy = {slot: post for slot, post in self._posts.items() if post.state is State.BUSY}
        underway = sum(signs[slot].units for slot in busy if slot in signs)
        latest = next((f"{slot}: {signs[slot].doing}" for slot in busy if slot in signs), "")
        times = [lane.forecast.seconds(self._counts[arch, State.BUSY]) for arch, lane in self._lanes.items()]
        known = [time for time in times if time is not None]
        left = max(known) if known and len(known) == len(times) else None
        self._observer.looked(underway, Counter(post.lane.arch for post in busy.values()), left, latest)

    def _hire(self) -> None:
        """Start a station in every free place for which there is a job."""
        for slot in self._cluster.slots():
            lane = self._lanes.get(slot.arch)
            if lane is None or lane.abandoned or slot in self._posts or slot in self._left_alone:
                continue
            here = sum(self._counts[lane.arch, state] for state in State)
            is_room = lane.limit is None or here < lane.limit
            if is_room and len(lane.dealer) > self._counts[lane.arch, State.OPENING]:
                self._hired += 1
                name = f"{slot.host}-{slot.index}-{int(time.time() * 1e3):x}-{self._hired}"
                self._posts[slot] = _Post(lane, name, alive_at=self._clock())
                self._counts[lane.arch, State.OPENING] += 1
                self._cluster.hire(slot, lane.brief, name)

    def _abandon_if_alone(self, now: float) -> None:
        """Give up lanes that have jobs and no station, when nobody came for a while."""
        alone = [
            lane
            for lane in self._lanes.values()
            if not lane.abandoned and len(lane.dealer) and not any(self._counts[lane.arch, state] for state in State)
        ]
        self._lonely_since = {lane.arch: self._lonely_since.get(lane.arch, now) for lane in alone}
        for lane in alone:
            if now - self._lonely_since[lane.arch] >= self._patience_s:
                lane.abandoned = f"no {lane.arch} is left for {len(lane.dealer)} {lane.jobs_are}"
                self._tell(lane.abandoned)

    def _hand_out(self) -> None:
        """Give every free station a job, as far as there is one for it, and time."""
        left = None if self._deadline is None else self._deadline - self._clock()
        if left is not None and left <= END_S:
            return
        for slot, post in list(self._idle.items()):
            lane = post.lane
            if not len(lane.dealer):
                continue
            coming = self._counts[lane.arch, State.OPENING] > 0
            job = lane.dealer.next(post.device, self._devices[lane.arch], others_may_come=coming)
            if job is None:
                continue
            is_mine = lane.landing.begun.get(job.key) == post.device
            post.job = job
            self._turn(slot, post, State.BUSY)
            self._cluster.order(slot, Order(job, lane.landing.earlier(job) if is_mine else b"", left))

    def _handle(self, event: Event) -> None:
        post = self._posts.get(event.slot)
        if post is None:
            return
        if isinstance(event, Refused):
            self._refuse(event.slot, event.reason)
        elif isinstance(event, Gone):
            self._lose(event.slot, event.reason)
        else:
            self._land(event, post)

    def _land(self, event: Arrived, post: _Post) -> None:
        """Store what came home. What is not of this run is not, and its station is left alone."""
        try:
            content = post.lane.landing.land(event.parcel)
        except UsageError as error:
            self._refuse(event.slot, str(error))
            return
        if post.state is State.OPENING:
            post.device = device = device_of(content.manifest)
            if device in self._devices[event.slot.arch]:
                self._refuse(event.slot, f"another station has the same device ({device}): one station per device")
                return
            self._devices[event.slot.arch].add(device)
            self._opened.add(event.slot.arch)
        for text in content.manifest.of_station.remarks:
            self._tell(text, event.slot)
        self._turn(event.slot, post, State.IDLE)
        if post.job is not None:
            job, post.job = post.job, None
            self._faults[event.slot] = 0
            self._finish(post.lane, job, content)

    def _finish(self, lane: Lane, job: AnyJob, content: Landed) -> None:
        """Show what came home of a job."""
        if job.key in lane.landing.done:
            lane.forecast.finished(job, content.elapsed_s)
        job.tell(content, self._observer)

    def _refuse(self, slot: Slot, reason: str) -> None:
        """A place that cannot: its job goes to another one, and it gets no more."""
        post = self._posts[slot]
        self._tell(f"{slot} takes no part: {reason}")
        self._left_alone.add(slot)
        if post.job is not None:
            post.lane.dealer.back(post.job)
        self._dismiss(slot)
        others = [one for one in self._cluster.slots() if one.arch == slot.arch and one not in self._left_alone]
        if not others and slot.arch not in self._opened and not any(self._counts[slot.arch, state] for state in State):
            raise RooflensError(f"no {slot.arch} of this cluster can measure: {reason}")

    def _lose(self, slot: Slot, reason: str) -> None:
        """A station that is no more, or hangs: what it did is measured again, elsewhere where that is possible."""
        post = self._posts[slot]
        self._faults[slot] += 1
        what = "" if post.job is None else f"; {post.job} is measured again"
        if post.job is not None and not post.lane.dealer.lost(post.job, post.device):
            post.lane.forecast.drop(post.job)
            what = f"; {post.job} has cost {slot.arch} too many stations and is left out"
        self._tell(f"{slot} is lost: {reason}{what}")
        if self._faults[slot] >= MOST_FAULTS:
            self._left_alone.add(slot)
            self._tell(f"{slot} is left alone: {MOST_FAULTS} stations in a row were lost there")
        self._dismiss(slot)

    def _dismiss(self, slot: Slot) -> None:
        post = self._posts.pop(slot)
        self._idle.pop(slot, None)
        self._counts[post.lane.arch, post.state] -= 1
        if post.state is not State.OPENING:
            self._devices[post.lane.arch].discard(post.device)
        self._cluster.dismiss(slot)

    def _close(self) -> None:
        """Let the stations that are free take their last readings; who is lost over it costs nothing more."""
        self._observer.doing("last readings of the devices")
        for slot, post in list(self._posts.items()):
            if post.state is State.IDLE:
                self._turn(slot, post, State.CLOSING)
                self._cluster.close(slot)
            else:
                self._dismiss(slot)
        left = OPENING_S if self._deadline is None else self._deadline - self._clock()
        self._gather(min(OPENING_S, max(left, STOP_S)), self._should_stop)

    def _bring_home(self) -> None:
        """Ask all stations for what they have, and wait for it a little."""
        self._observer.doing("bring home what is measured")
        self._cluster.ask_to_stop()
        for slot, post in list(self._posts.items()):
            if post.state is State.IDLE and post.lane.brief.closes_at_once:
                self._turn(slot, post, State.CLOSING)
                self._cluster.close(slot)
            elif post.state is not State.BUSY:
                self._dismiss(slot)
        self._gather(STOP_S)

    def _gather(self, seconds: float, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Land the last parcel of every station that is left; raises Interrupted when `should_stop` says so."""
        until = self._clock() + seconds
        while self._posts and self._clock() < until:
            if should_stop():
                raise Interrupted("stopped")
            for event in self._cluster.wait(POLL_S):
                post = self._posts.get(event.slot)
                if post is None:
                    continue
                if isinstance(event, Arrived):
                    self._land(event, post)
                else:
                    self._tell(f"{event.slot} ended without its last readings: {event.reason}")
                if event.slot in self._posts:
                    self._dismiss(event.slot)

    def _tell(self, text: str, slot: Slot | None = None) -> None:
        """Pass on a remark; what several stations say (and have noted themselves) is told once."""
        said = f"{slot}: {text}" if slot else text
        if slot is None:
            self._note(said)
        if text not in self._told:
            self._told.add(text)
            self._observer.remark(said)

    def _note(self, text: str) -> None:
        for lane in self._lanes.values():
            lane.landing.event(text)


class _OutOfTimeError(Exception):
    """--max-time is over."""
