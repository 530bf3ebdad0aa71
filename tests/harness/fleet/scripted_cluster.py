"""A cluster without machines: stations answer at once, in a time of its own, and fail as the script says."""

from rooflens.harness.fleet.cluster import Arrived, Gone, Refused, Sign

from .fabricated import parcel, record


class ScriptedCluster:
    """`script(step, slot, order)` decides over each request ("open", "measure", "close"): a parcel (None: the usual
    one), an exception class from the cluster's events with a reason, or "hang".
    """

    def __init__(self, slots, script=lambda step, slot, order: None, seconds=1.0):
        self.places = list(slots)
        self.script, self.seconds = script, seconds
        self.now = 0.0
        self.log = []
        self.names = {}
        self.alive = {}
        self._due = []
        self.stopping = False

    def clock(self):
        return self.now

    def slots(self):
        return list(self.places)

    def hire(self, slot, brief, name):
        assert slot not in self.alive, "two stations in one place"
        self.alive[slot] = Sign("open", 0, 0)
        self.names[slot] = name
        self._request("open", slot, None)

    def order(self, slot, order):
        assert slot in self.alive
        self._request("measure", slot, order)

    def close(self, slot):
        self._request("close", slot, None)

    def dismiss(self, slot):
        self.log.append(("dismiss", slot, None))
        self.alive.pop(slot, None)
        self._due = [entry for entry in self._due if entry[1] != slot]

    def ask_to_stop(self):
        self.stopping = True

    def wait(self, seconds):
        if not self._due:
            self.now += seconds
            return []
        due = min(entry[0] for entry in self._due)
        self.now = max(self.now, min(due, self.now + seconds))
        ready = [entry for entry in self._due if entry[0] <= self.now]
        self._due = [entry for entry in self._due if entry[0] > self.now]
        return [event for _, _, event in ready]

    def signs(self):
        return dict(self.alive)

    def _request(self, step, slot, order):
        self.log.append((step, slot, order.job if order else None))
        said = self.script(step, slot, order)
        if said == "hang":
            return
        if isinstance(said, tuple):
            kind, reason = said
            event = kind(slot, reason)
            if kind is Gone:
                self.places = [place for place in self.places if place != slot or "process" in reason]
        else:
            event = Arrived(slot, said or self._usual(step, slot, order))
        self.alive[slot] = Sign(step, 0, self.alive[slot].count + 1)
        self._due.append((self.now + self.seconds, slot, event))

    def _usual(self, step, slot, order):
        if step == "measure":
            return parcel(order.job, slot, self.names[slot], elapsed_s=self.seconds)
        return record(step, slot, self.names[slot])

    def measured(self):
        return [(slot, job.key) for step, slot, job in self.log if step == "measure"]


__all__ = ["Gone", "Refused", "ScriptedCluster"]
