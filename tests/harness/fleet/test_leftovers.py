"""What killed stations leave on their machine goes with the next one; what is at work stays."""

import os
import subprocess
import sys

from rooflens.harness.fleet.leftovers import YOUNG_S, claim

CLAIM = "import sys; from pathlib import Path; from rooflens.harness.fleet.leftovers import claim; "
CLAIM += "claim(Path(sys.argv[1])); print('mine', flush=True); sys.stdin.read()"


def station(parent, name):
    command = [sys.executable, "-c", CLAIM, parent / f"rooflens-{name}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "mine\n"
    return process


def aged(folder):
    os.utime(folder / ".lock", times=(0, os.path.getmtime(folder / ".lock") - YOUNG_S - 1))


def test_folders_of_killed_stations_go_and_those_at_work_stay(tmp_path):
    with (
        station(tmp_path, "killed") as killed,
        station(tmp_path, "young") as young,
        station(tmp_path, "alive") as alive,
    ):
        for process in (killed, young):
            process.kill()
            process.wait()
        for name in ("killed", "alive"):
            (tmp_path / f"rooflens-{name}" / "tree").mkdir()
            aged(tmp_path / f"rooflens-{name}")
        (tmp_path / "rooflens-mine").mkdir()  # of the user, or of an older version
        claim(tmp_path / "rooflens-next")
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"rooflens-young", "rooflens-alive", "rooflens-mine", "rooflens-next"}
        assert (tmp_path / "rooflens-alive" / "tree").is_dir()
        alive.kill()
