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
