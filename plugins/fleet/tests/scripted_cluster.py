"""A cluster without machines: stations answer at once, in a time of its own, and fail as the script says."""

from rooflens.plugins.fleet.engine.cluster import Answered, Failed, Heartbeat, Lost

from .fabricated import archive, record


def answering(answer, step="measure", place=None, job=None):
    """Return a script with one unusual answer, or that of a function of the slot: to a step, for a slot and a job."""

    def script(asked, slot, assignment):
        if asked != step or place not in (None, slot) or (job and assignment.job != job):
            return None
        return answer(slot) if callable(answer) else answer

    return script


class ScriptedCluster:
    """`script(step, slot, order)` decides over each request ("open", "measure", "close"): a parcel (None: the usual
    one), an exception class from the cluster's events with a reason, or "hang".
    """

    def __init__(self, slots, script=lambda step, slot, assignment: None, seconds=1.0):
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

    def start(self, slot, spec, name):
        assert slot not in self.alive, "two stations in one place"
        self.alive[slot] = Heartbeat("open", 0, 0)
        self.names[slot] = name
        self._request("open", slot, None)

    def assign(self, slot, assignment):
        assert slot in self.alive
        self._request("measure", slot, assignment)

    def close(self, slot):
        self._request("close", slot, None)

    def kill(self, slot):
        self.log.append(("kill", slot, None))
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

    def heartbeats(self):
        return dict(self.alive)

    def _request(self, step, slot, assignment):
        self.log.append((step, slot, assignment.job if assignment else None))
        said = self.script(step, slot, assignment)
        if said == "hang":
            return
        if isinstance(said, tuple):
            kind, reason = said
            event = kind(slot, reason)
            if kind is Lost:
                self.places = [place for place in self.places if place != slot or "process" in reason]
        else:
            event = Answered(slot, said or self._usual(step, slot, assignment))
        self.alive[slot] = Heartbeat(step, 0, self.alive[slot].count + 1)
        self._due.append((self.now + self.seconds, slot, event))

    def _usual(self, step, slot, assignment):
        if step == "measure":
            return archive(assignment.job, slot, self.names[slot], elapsed_s=self.seconds)
        return record(step, slot, self.names[slot])

    def measured(self):
        return [(slot, job.key) for step, slot, job in self.log if step == "measure"]


__all__ = ["Failed", "Lost", "ScriptedCluster", "answering"]
