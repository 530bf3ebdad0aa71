"""The graph timer of flushed launches over the scripted device: every launch a sample, and no host in between."""

import pytest
from rooflens.harness.graph_difference_timer import GraphDifferenceTimer
from rooflens.harness.graph_timer import GraphTimer
from rooflens.harness.marked_graph_timer import GRAPHS, IN_GRAPH, LONG_S, MarkedGraphTimer
from rooflens.harness.timer import Subject
from rooflens.harness.timers import graph_timer
from rooflens.shapes.errors import RooflensError

from .fake_cache import Buffer, FakeCache
from .fake_device import FakeDevice
from .fake_latency import Latency
from .fake_script import FREE, Costs

TICK = 32e-9

GAP = Costs().graph_gap_s


def flushed(device, kernel, flush_s=40e-6):
    return Subject(device.launcher(kernel), device.flusher(flush_s), 1)


@pytest.mark.parametrize("kernel_s", [0.3e-6, 3e-6, 40e-6, 5e-3])
def test_each_launch_of_a_graph_is_a_sample_in_order(kernel_s):
    """A launch may be as small beside its flush as it likes: nothing is subtracted."""
    device = FakeDevice()
    kernel = device.kernel(Latency(kernel_s, noise=0.2, seed=3))
    timer = MarkedGraphTimer(device, flushed(device, kernel))
    found = [time for _ in range(3) for time in timer.batch(20).times_s]
    assert len(found) == 60
    truth = [seconds + GAP for seconds in kernel.durations_s[-60:]]
    assert found == pytest.approx(truth, rel=0, abs=1.01 * TICK)
    assert (timer.launches_per_sample, timer.resolution_s, timer.objection(), timer.remark) == (1, TICK, "", "")


def test_whole_graphs_are_replayed_one_at_least():
    device = FakeDevice()
    timer = MarkedGraphTimer(device, flushed(device, device.kernel(5e-6)))
    taken = [len(timer.batch(count).times_s) for count in (1, IN_GRAPH, 5 * IN_GRAPH + 1)]
    assert taken == [IN_GRAPH, IN_GRAPH, 5 * IN_GRAPH]


def test_a_long_launch_is_alone_in_its_graph():
    device = FakeDevice()
    timer = MarkedGraphTimer(device, flushed(device, device.kernel(LONG_S)))
    assert [len(timer.batch(count).times_s) for count in (1, 3, 10)] == [1, 3, 10]


def test_no_stall_and_no_slow_call_of_the_host_gets_into_a_sample():
    device = FakeDevice(Costs(graph_s=300e-6, node_s=5e-6, event_s=30e-6))
    device.stalls = dict.fromkeys(range(1, 2000, 7), 1e-3)
    timer = MarkedGraphTimer(device, flushed(device, device.kernel(5e-6)))
    batch = timer.batch(40)
    assert batch.blocked is True
    assert batch.discarded == ()
    assert batch.times_s == pytest.approx([5e-6 + GAP] * 40, abs=1.01 * TICK)


def test_the_device_is_never_idle_between_replays():
    """Two graphs take turns: the host reads and replays one while the device runs the other."""
    device = FakeDevice()
    timer = MarkedGraphTimer(device, flushed(device, device.kernel(5e-6)))
    timer.batch(GRAPHS * IN_GRAPH)
    began, busy = device.host_s, device.busy_s
    timer.batch(100)
    idle = 1 - (device.busy_s - busy) / (device.host_s - began)
    assert idle <= 0.02


def test_a_graph_is_captured_while_the_device_runs_the_one_before():
    device = FakeDevice()
    timer = MarkedGraphTimer(device, flushed(device, device.kernel(5e-6)))
    busy_at_capture = []
    capture = device.capture

    def watched(work):
        busy_at_capture.append(device.is_busy)
        return capture(work)

    device.capture = watched
    timer.batch(40)
    assert busy_at_capture == [False] + [True] * (GRAPHS - 1)


def test_meanwhile_is_called_once_while_the_device_works():
    device = FakeDevice()
    timer = MarkedGraphTimer(device, flushed(device, device.kernel(5e-6)))
    for count in (1, IN_GRAPH, GRAPHS * IN_GRAPH, 100):
        seen = []
        timer.batch(count, lambda seen=seen: seen.append(device.is_busy))
        assert seen == [True]


def test_every_launch_is_cold():
    size = 500_000
    device = FakeDevice(FREE, resolution_s=0.0, cache=FakeCache(1 << 20))
    kernel = device.kernel(1e-6, reads=[Buffer(size)])
    timer = MarkedGraphTimer(device, Subject(device.launcher(kernel), device.flusher(), 1))
    assert timer.batch(20).times_s == pytest.approx([1e-6 + size / 4e12] * 20)


def test_lines_that_a_launch_told_to_stay_are_not_used_again_in_a_graph():
    """Nothing inside of a graph releases them: it holds one launch."""
    size = 256 << 10
    device = FakeDevice(FREE, resolution_s=0.0, cache=FakeCache(1 << 20), persistence=True)
    kernel = device.kernel(1e-6, reads=[Buffer(size)], persists=True)
    timer = MarkedGraphTimer(device, Subject(device.launcher(kernel), device.flusher(), 1))
    found = []
    for _ in range(4):
        device.end_persistence()
        found += timer.batch(1).times_s
    assert found == pytest.approx([1e-6 + size / 4e12] * 4)


def test_a_negative_time_is_kept_with_its_reason():
    device = FakeDevice()
    timer = MarkedGraphTimer(device, flushed(device, device.kernel(5e-6)))
    timer.batch(GRAPHS * IN_GRAPH)
    device.moved_stamps = dict.fromkeys(range(device.recorded + 2, device.recorded + 3), -1e-3)
    batch = timer.batch(GRAPHS * IN_GRAPH)
    assert [time < 0 for time in batch.times_s] == [True] + [False] * (GRAPHS * IN_GRAPH - 1)
    assert batch.discarded == ("negative time", *[""] * (GRAPHS * IN_GRAPH - 1))


def test_a_launch_that_waits_is_refused_before_it_harms_a_capture():
    device = FakeDevice()
    with pytest.raises(RooflensError, match=r"waits for the device.*--timer event"):
        MarkedGraphTimer(device, Subject(device.launcher(device.kernel(5e-6), waits=True), device.flusher(), 1))


def test_where_events_cannot_be_nodes_the_flush_is_subtracted():
    for marks, expected in ((True, MarkedGraphTimer), (False, GraphDifferenceTimer)):
        device = FakeDevice(marks_graphs=marks)
        subject = flushed(device, device.kernel(30e-6))
        assert type(graph_timer(device, subject)) is expected
        assert type(graph_timer(device, Subject(subject.launch))) is GraphTimer
