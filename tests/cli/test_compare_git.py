"""`rooflens compare --git`: real repositories, real processes, on this CPU."""

import json
import math
import os
import re
import signal
from contextlib import chdir

import pandas as pd
import pytest
import rooflens

from ..environments import ROOT
from ..harness.repositories import git, repository
from . import tiny_runs
from .tiny_runs import ON_CPU, fresh, start, wait_until

KERNEL = """
import torch
from rooflens.kernels.fourbit.quantize import dequantize
from rooflens.kernels.provider import Launch, Provider
{imports}

class Mine(Provider):
    name = "mine"

    def candidates(self, problem, scheme, device):
        return {candidates}

    def prepare(self, inputs, config=None):
        repeat = (config or {{"repeat": 1}})["repeat"]
        weight = dequantize(inputs.weight, inputs.x.dtype).view(inputs.problem.N, -1).t()
        out = inputs.empty_output()

        def run():
            for _ in range(repeat * {repeat}):
                torch.mm(inputs.x, weight, out=out)

        return Launch(run, out, config={{"repeat": repeat}})

PROVIDERS = [Mine()]
"""


def kernel(repeat=1, imports="", candidates='[{"repeat": 1}]'):
    return {"bench/kernels.py": KERNEL.format(repeat=repeat, imports=imports, candidates=candidates)}


COMPARE = (
    *("compare", "--git", "HEAD~1..HEAD", "--repo", "repo", "--providers", "bench/kernels.py", "tiny.toml"),
    *(*ON_CPU, "-o", "both"),
)
SMALL = ("--rounds", 2, "-a", "M=3", "--filter", "layer == 'q'")


def compare(here, *arguments, code=0):
    return tiny_runs.rooflens(here, *COMPARE, *arguments, code=code)


def head_is_slow(done):
    """Return what --json says; head's work is 300-fold, but two rounds on a busy machine may not verify it."""
    found = json.loads(done.stdout)
    assert done.returncode == (3 if found["verdicts"]["slower"] else 0), done.stderr
    assert min(case["effect"] for case in found["cases"]) > math.log(10), found["cases"]
    return found


def package(repeat):
    return {"planted_package/__init__.py": f"REPEAT = {repeat}\n"}


def test_more_work_in_a_package_is_found_from_inside_the_working_tree(here):
    """The working directory is where Python looks first: it must not be what both versions import."""
    imports = "from planted_package import REPEAT"
    whole = kernel(repeat="REPEAT", imports=imports)
    repo = repository(here / "repo", whole | package(1), package(300))
    given = ("--git", "HEAD~1..HEAD", "--providers", "bench/kernels.py", "../tiny.toml", *ON_CPU, "-o", "../both")
    done = fresh(repo, "compare", *given, *SMALL, "--json", code=(0, 3))
    found = head_is_slow(done)
    assert {case["provider"] for case in found["cases"]} == {"mine"}, "only the kernels of the file are measured"
    cells = {arm: pd.read_csv(here / "both" / arm / "cells.csv") for arm in ("base", "head")}
    operands = [frame.set_index(["layer", "round"])["operands"].to_dict() for frame in cells.values()]
    assert operands[0] == operands[1]
    assert len(set(operands[0].values())) == 2, "every round has activations of its own"
    manifests = [json.loads((here / "both" / arm / "run.json").read_text()) for arm in ("base", "head")]
    assert [manifest["processes"] for manifest in manifests] == [2, 2], "a fresh process per round"
    for arm, manifest in zip(("base", "head"), manifests, strict=True):
        assert manifest["providers"]["mine"]["file"].endswith(f"/{arm}/tree/bench/kernels.py")
    assert git(repo, "worktree", "list").count("\n") == 0
    assert git(repo, "status", "--porcelain") == ""
    assert not any((here / "cache" / "rooflens" / "compare").iterdir())


@pytest.mark.slow
def test_python_measures_what_the_command_line_does(here):
    repo = repository(here / "repo", kernel(), kernel(300))
    git(repo, "switch", "-q", "-c", "my-branch")
    git(repo, "branch", "-f", "main", "HEAD~1")
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "comparing.md").read_text(), flags=re.DOTALL)
    small = (
        "rounds=2, device='cpu', llc_bytes='1MiB', axes={'M': 3}, filter_expression=\"layer == 'q'\", tell=told.append"
    )
    told, names = [], {}
    with chdir(repo):
        here_and_now = example.replace("llm4bit-quick", "../tiny.toml").replace("rounds=8", small)
        exec(here_and_now.replace('"both"', '"../python"'), {"told": told}, names)
        assert names["two"].complete
        assert [line for line in told if line.startswith("check out head: ")]
        assert set(rooflens.compare(to="../python", resume=True, rounds=3).verdicts["rounds"]) == {3}
    compare(here, "--git", "main..my-branch", *SMALL, code=(0, 3))
    stored, typed = (json.loads((here / name / "compare.json").read_text()) for name in ("python", "both"))
    assert (stored["request"].pop("repo"), typed["request"].pop("repo")) == (None, str(repo))
    same = {"request", "commits", "files", "suite", "suite_hash", "identity", "repository", "setup"}
    assert {name: stored[name] for name in same} == {name: typed[name] for name in same}


@pytest.mark.slow
def test_a_package_of_the_invoking_python_is_no_second_version(here, tmp_path):
    """The file is in the checkout; what it imports is one install that both arms would share."""
    installed = tmp_path / "site" / "planted_package"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    imports = "import planted_package"
    version = kernel(imports=imports) | {"src/planted_package/__init__.py": ""}
    repository(here / "repo", version, version)
    shared = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    refused = fresh(here, *COMPARE, "-a", "M=1", "--setup", "true", env=shared, code=1)
    assert "module planted_package comes from" in refused.stderr
    assert "--setup" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_and_resumed(here, number):
    repository(here / "repo", kernel(), kernel())
    process = start(here, *COMPARE, *SMALL)
    state = here / "both" / "compare.json"
    wait_until(lambda: state.is_file() and len(json.loads(state.read_text())["done"]) >= 1, process, "a finished round")
    process.send_signal(number)
    _, errors = process.communicate()
    if number == signal.SIGTERM:
        assert process.returncode == 130
        last = errors.splitlines()[-1]
        assert last.startswith("rooflens: error: interrupted; finished rounds are in")
        assert last.endswith("resume with: rooflens compare -o both --resume")
    before = (here / "both" / "base" / "samples.csv").read_bytes()
    tiny_runs.rooflens(here, "compare", "-o", "both", "--resume", code=(0, 3))
    assert (here / "both" / "base" / "samples.csv").read_bytes().startswith(before)
    for arm in ("base", "head"):
        cells = pd.read_csv(here / "both" / arm / "cells.csv")
        assert not cells.duplicated(["cell_id", "round"]).any()
        assert cells.groupby("cell_id")["round"].nunique().tolist() == [2]
    twice = compare(here, code=2)
    assert "holds a comparison already" in twice.stderr


@pytest.mark.slow
def test_another_configuration_is_replayed_in_both_versions(here):
    """Head puts the slow configuration first: the choice is what costs."""
    both = ('[{"repeat": 1}, {"repeat": 300}]', '[{"repeat": 300}, {"repeat": 1}]')
    repository(here / "repo", kernel(candidates=both[0]), kernel(candidates=both[1]))
    done = compare(here, *SMALL, "--json", code=(0, 3))
    causes = head_is_slow(done)["causes"]
    assert causes
    assert all(row["choice"] > math.log(10) > 2 * abs(row["code"]) for row in causes), causes
    assert {row["base_config"] for row in causes} == {'{"repeat":1}'}


@pytest.mark.slow
def test_tuned_versions_run_what_base_chose_and_heads_own_choice_stands_beside(here):
    """Head has a configuration that base lacks, and that is faster: the code is the same, the choice is not."""
    slow, fast = '[{"repeat": 300}, {"repeat": 200}]', '[{"repeat": 300}, {"repeat": 200}, {"repeat": 1}]'
    repository(here / "repo", kernel(candidates=slow), kernel(candidates=fast))
    done = compare(here, *SMALL, "--tune", "--json", code=(0, 3))
    found = json.loads(done.stdout)
    assert found["causes"] is None, "both versions ran the same configuration"
    ran = {(case["base_config"], case["head_config"]) for case in found["cases"]}
    assert len(ran) == 1
    assert set(*ran) in ({'{"repeat":300}'}, {'{"repeat":200}'}), "which of the two is faster is a busy machine's guess"
    own = pd.read_csv(here / "both" / "head+own" / "cells.csv")
    assert set(own["config"]) == {'{"repeat":1}'}
    assert found["selection"]["cases"]["fwd"]["ratio"] < 0.2


def from_outside(here, version, code=(0, 3)):
    (here / "mine.py").write_text(version["bench/kernels.py"])
    given = ("--git", "HEAD~1..HEAD", "--repo", "repo", "--providers", "mine.py", "tiny.toml", *ON_CPU, "-o", "both")
    return fresh(here, "compare", *given, *SMALL, "--json", code=code)


@pytest.mark.slow
def test_a_provider_file_outside_of_the_repository_measures_what_it_imports_of_it_or_is_refused(here):
    repository(here / "repo", package(1), package(300))
    done = from_outside(here, kernel(), code=1)
    assert "has imported nothing of it: both versions would run the same code" in done.stderr
    assert not list((here / "both").glob("*/cells.csv"))  # nothing was stored that a later call would take for measured
    assert git(here / "repo", "worktree", "list").count("\n") == 0
    again = from_outside(here, kernel(repeat="REPEAT", imports="from planted_package import REPEAT"))
    assert [case["provider"] for case in head_is_slow(again)["cases"]] == ["mine"]
    assert git(here / "repo", "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("first", "arguments", "words"),
    [
        ({"README": "nothing yet"}, (), ["bench/kernels.py: base (", "has no such file"]),
        (kernel(), ("--providers", "mine.py"), ["--providers mine.py: base ("]),
        (kernel(), ("--setup", "echo cannot build; exit 7"), ["--setup failed with exit code 7", "cannot build"]),
    ],
)
def test_what_cannot_be_set_up_is_told(here, first, arguments, words):
    repository(here / "repo", first, kernel())
    done = compare(here, *arguments, code=2)
    assert all(word in done.stderr for word in words), done.stderr
