"""What a fleet refuses, and how: one line, an exit code, and soon."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from tests.cli.tiny_runs import check_whole, fresh, run_args

from .ray_nodes import cpu_arch

NO_RAY = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *where: None if name.partition(".")[0] == "ray" else find(name, *where)
"""

HERE = ["run", "tiny.toml", "-o", "out"]


@pytest.fixture
def refused(place, monkeypatch, refused):
    """Return `refused(code, *arguments)`: run a command that must fail in one line, and return the line."""
    monkeypatch.chdir(place)
    for name in ("RAY_ADDRESS", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)

    def run(code, *arguments):
        line = refused(*arguments, code=code)
        assert not (place / "out").exists()
        return line

    before = dict(os.environ)  # what Ray is to read stays in it
    yield run
    os.environ.clear()
    os.environ.update(before)


def test_one_machine_needs_no_ray(place):
    cores = len(os.sched_getaffinity(0))
    measured = [*run_args("dequant_blas", file=None), "-a", "M=1", "--jobs", "local:1"]
    commands = (["fleet", "--help"], measured, ["fleet", "resources", "--device", "cpu", "--slots", str(cores)])
    code = f"{NO_RAY}\nfrom rooflens.cli.main import main\nprint([main(command) for command in {commands}])"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(place)}
    environment |= {name: value for name, value in os.environ.items() if name == "ATEN_CPU_CAPABILITY"}
    done = subprocess.run([sys.executable, "-c", code], cwd=place, env=environment, capture_output=True, text=True)
    *_, last, codes = done.stdout.splitlines()
    assert (json.loads(last), codes) == ({cpu_arch(): cores}, "[0, 0, 0]"), done.stderr
    check_whole(place, cells=2)


def test_the_variable_that_ray_refuses_is_named(refused, monkeypatch):
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "0")
    assert "unset it, and select AMD GPUs with HIP_VISIBLE_DEVICES instead" in refused(1, *HERE, "--address", "auto")


def test_nothing_that_listens_is_told_at_once(refused):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    began = time.monotonic()
    line = refused(1, *HERE, "--address", f"127.0.0.1:{port}")
    assert time.monotonic() - began < 10
    assert line.startswith(f"rooflens: error: no Ray cluster answers at 127.0.0.1:{port}: start one ")


@pytest.mark.parametrize(
    ("option", "values", "words"),
    [
        ("--address", ("somewhere", "10.0.0.7", "ray://10.0.0.7:10001", "10.0.0.7:port"), "HOST:PORT of the head"),
        ("--address=auto --on", ("sm", "sm90=0", "sm90=x", "h200", "sm90,gfx950"), "write an architecture, such as"),
        ("--jobs", ("2", "local:0", "local:x", "all"), "write local for all devices of this machine"),
    ],
)
def test_values_of_options_are_refused_before_anything_starts(refused, option, values, words):
    for value in values:
        line = refused(2, *HERE, *option.split(), value)
        assert option.split()[-1] in line
        assert words in line


def test_the_former_command_says_what_does_this_now(refused):
    assert "add --jobs local, " in refused(2, "fleet", "run", "tiny.toml", "--address", "auto")


def test_which_devices_is_said_once(refused):
    assert "omit one of them" in refused(2, *HERE, "--jobs", "local", "--address", "auto", "--dry-run")
    assert "cuda:1 is one device" in refused(2, *HERE, "--jobs", "local", "--device", "cuda:1")
    assert "choose an architecture with --on" in refused(2, *HERE, "--address", "auto", "--device", "cpu")


@pytest.mark.parametrize(
    "command",
    [
        [*run_args(file=None), "--jobs", "local:{}"],
        ["fleet", "resources", "--device", "cpu", "--slots", "{}"],
        ["fleet", "start", "--device", "cpu", "--port", "1", "--slots", "{}"],
    ],
)
def test_a_cpu_has_no_more_parts_than_cores(refused, command):
    cores = len(os.sched_getaffinity(0))
    line = refused(2, *(word.format(cores + 1) for word in command))
    assert line.endswith(
        f"{cores + 1} parts of the CPU are requested, and it has {cores} cores: request at most {cores}\n"
    )


def test_a_head_whose_port_is_taken_is_told_so(refused):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = refused(2, "fleet", "start", "--device", "cpu", "--port", port)
    assert line == f"rooflens: error: port {port} of this machine is taken by another program: choose a --port\n"


@pytest.mark.ray
@pytest.mark.slow
def test_a_second_head_on_a_machine_names_the_first(two_nodes, refused):
    line = refused(2, "fleet", "start", "--device", "cpu", "--port", two_nodes.address.rpartition(":")[2])
    assert line.startswith(
        f"rooflens: error: this machine is in the Ray cluster at {two_nodes.address} already: end it with ray stop, "
    )


@pytest.mark.ray
def test_a_cluster_without_the_architecture_says_what_it_offers(two_nodes, place):
    address = ("--address", two_nodes.address)
    done = fresh(place, *HERE, *address, "--on", "gfx950", env=two_nodes.environment, code=2)
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"1 x gfx950 is requested, and this cluster offers 2 x {cpu_arch()}: " in done.stderr
    assert not (place / "out").exists()


@pytest.mark.ray
def test_devices_of_a_cluster_are_listed(two_nodes, place):
    command = ("fleet", "devices", "--address", two_nodes.address)
    done = fresh(place, *command, "--json", env=two_nodes.environment)
    assert done.stderr == ""
    nodes = json.loads(done.stdout)
    assert {node["address"] for node in nodes} == {"127.0.0.1"}
    assert sorted(sum(node["offers"].values()) for node in nodes) == [0, 1, 1]
    shown = fresh(place, *command, env=two_nodes.environment).stdout.splitlines()
    assert shown[0].split() == ["host", "address", "offers"]
    assert sum(f"1 x {cpu_arch()}" in line for line in shown) == 2
