"""A head that dies while it is asked: Ray itself never returns."""

import socket
from threading import Event
from types import SimpleNamespace

import pytest
from rooflens.shapes.errors import RooflensError

pytest.importorskip("ray")
from rooflens.plugins.fleet import ray_cluster, ray_host

INLINE_BYTES = 100 * 1024
"""What Ray passes on without its object store, `max_direct_call_object_size`: https://github.com/ray-project/ray."""


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(ray_cluster, "HEAD_GONE", 1)


def test_a_question_ends_when_the_head_is_gone():
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
    with pytest.raises(RooflensError, match=rf"the head of the Ray cluster \({host}:{port}\) does not answer"):
        ray_cluster.ask((host, port), Event().wait)


def test_a_slow_head_is_waited_for():
    asked = Event()

    def slowly():
        asked.wait(1.2)
        return "answer"

    with socket.create_server(("127.0.0.1", 0)) as server:
        assert ray_cluster.ask(server.getsockname(), slowly) == "answer"


def test_an_error_is_of_the_question():
    with pytest.raises(ValueError, match="of Ray"):
        ray_cluster.ask(("127.0.0.1", 1), lambda: int("of Ray"))


def test_a_dead_head_is_left_by_the_next_call(monkeypatch):
    """Ray may end the process when it leaves one: not before the error is told."""
    calls, alive = [], [False, True]
    monkeypatch.setattr(ray_cluster.ray, "init", lambda **_: calls.append("init"))
    monkeypatch.setattr(ray_cluster.ray, "shutdown", lambda: calls.append("shutdown"))
    monkeypatch.setattr(ray_cluster, "RayCluster", object)
    monkeypatch.setattr(ray_cluster, "answers", lambda *_: alive.pop(0))
    with pytest.raises(RooflensError, match="dead"), ray_cluster.joined("one:1"):
        raise RooflensError("dead")
    assert calls == ["init"]
    with ray_cluster.joined("another:1"):
        assert calls == ["init", "shutdown", "init"]
    assert calls == ["init", "shutdown", "init", "shutdown"]


@pytest.mark.parametrize("size", [0, 1, ray_host.PART_BYTES, 3 * INLINE_BYTES + 7])
def test_no_message_is_passed_on_through_the_object_store(size, tmp_path, monkeypatch):
    """Ray ends our process when the store of a dead head is asked to let go of one."""
    message, passed = bytes(number % 251 for number in range(size)), []
    host = object.__new__(ray_host.RayHost)
    host._child, host._scratch = SimpleNamespace(receive=lambda within_s: message, end=lambda: None), tmp_path
    monkeypatch.setattr(ray_host, "take", lambda path: message)

    def ask(method, *arguments, **_):
        answer, error = getattr(host, method)(*arguments)
        assert error is None
        passed.append(answer)
        return answer

    child = ray_cluster.RemoteChild(SimpleNamespace(ask=ask), tmp_path / "log")
    assert child.receive(1.0) == message
    child.end()
    assert ((tmp_path / "log").read_bytes() if size else b"") == message
    assert all(len(part) < INLINE_BYTES for part in passed if isinstance(part, bytes))
