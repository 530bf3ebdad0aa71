"""The graph timer of a flushed launch: events are nodes of the graph, so that each launch in it is a sample."""

from collections import deque
from collections.abc import Iterator

from .accelerator import Accelerator, Action, Event, rehearse
from .timer import Batch, Subject, nothing

IN_GRAPH = 4
"""Samples in one graph. Capturing one takes the host as long as queueing it; fewer leave it less time to replay."""

LONG_S = 200e-6
"""From a sample that long on, a graph holds one: the host has time enough."""

GRAPHS = 2
"""Graphs that take turns: while the device runs one, the host reads the times of the other and replays it."""


class MarkedGraphTimer:
    """Graphs of flush, event, launch, event, ...: the device goes from node to node without the host.

    Beside the event timer this needs no blocker, and nothing that the host does is in a sample, or between two of them.
    On an H200 its samples scatter less by half (docs/measured-facts.md): there are no more queue entries to be fetched
    from the host's memory between an event and its launch. A launch of several kernels has shorter gaps between them,
    as in every graph.
    """

    name = "graph"
    launches_per_sample = 1
    remark = ""

    def __init__(self, device: Accelerator, subject: Subject) -> None:
        self.resolution_s = device.resolution_s
        self._device, self._subject = device, subject
        rehearse(device, subject.launch)
        started = device.now()
        subject.before()
        subject.launch()
        device.synchronize()
        # What a launch tells to stay in the cache, only the host can release, and not from inside of a graph.
        alone = device.end_persistence() or device.now() - started > LONG_S
        self._each = 1 if alone else IN_GRAPH
        self._graphs: list[_Graph] = []

    def batch(self, count: int, meanwhile: Action = nothing) -> Batch:
        """Replay as many whole graphs as hold `count` samples, one at least."""
        replays = max(1, count // self._each)
        running: deque[_Graph] = deque()
        times: list[float] = []
        self._device.synchronize()
        self._device.end_persistence()
        for number in range(replays):
            if len(running) == GRAPHS:
                times += running.popleft().times()
            graph = self._graph(number % GRAPHS)
            graph.replay()
            running.append(graph)
            if len(running) == min(GRAPHS, replays) == number + 1:
                meanwhile()
        for graph in running:
            times += graph.times()
        bad = tuple("" if time > 0 else "negative time" for time in times)
        return Batch(tuple(times), bad if any(bad) else (), blocked=True)

    def objection(self) -> str:
        """Never object: nothing is subtracted."""
        return ""

    def _graph(self, number: int) -> "_Graph":
        """Capture a graph when its turn first comes; the device is running the one before by then."""
        if number == len(self._graphs):
            self._graphs.append(_Graph(self._device, self._subject, self._each))
        return self._graphs[number]


class _Graph:
    """One captured graph with its events."""

    def __init__(self, device: Accelerator, subject: Subject, count: int) -> None:
        self._marks: list[tuple[Event, Event]] = [(device.graph_event(), device.graph_event()) for _ in range(count)]
        # A node's event cannot be waited for before the replay has reached it the first time.
        self._ended = device.event()

        def work() -> None:
            for begin, end in self._marks:
                subject.before()
                begin.record()
                subject.launch()
                end.record()

        self._replay = device.capture(work)

    def replay(self) -> None:
        """Queue all samples."""
        self._replay()
        self._ended.record()

    def times(self) -> Iterator[float]:
        """Wait for the replay, and read what it took."""
        self._ended.wait()
        return (begin.seconds_until(end) for begin, end in self._marks)
