"""A head that dies while it is asked: Ray itself never returns."""

import socket
from threading import Event

import pytest
from rooflens.shapes.errors import RooflensError

pytest.importorskip("ray")
from rooflens.plugins.fleet import ray_cluster


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
