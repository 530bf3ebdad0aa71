"""action.yml: its steps, run by bash on a repository with two commits, as a runner of GitHub Actions runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rooflens.reports.render.comment import LIMIT

from ..environments import link_packages, package_source, printed_by, wheel_of
from ..harness.repositories import git, repository
from .test_compare_git import kernel
from .tiny_runs import ON_CPU, write_suite

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
SMALL = f"{' '.join(ON_CPU)} --rounds 2 -a M=3 --filter \"layer == 'q'\""


class Runner:
    """What a runner gives a composite action: contexts in expressions, and files that steps write into."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        self.folder, self.inputs = folder, inputs
        self.steps: dict[str, dict[str, str]] = {}
        self.action_path = str(ROOT)
        for name in ("summary", "output", "temp"):
            (folder / name).mkdir(exist_ok=True)
        self.environment = os.environ | {
            "XDG_CACHE_HOME": str(folder / "cache"),
            "RUNNER_TEMP": str(folder / "temp"),
        }

    def value(self, expression: str) -> str:
        """Evaluate `a || b` of the contexts inputs, steps and github."""
        for term in expression.split("||"):
            context, *names = term.strip().split(".")
            if context == "inputs":
                (name,) = names
                found = self.inputs.get(name, ACTION["inputs"][name].get("default", ""))
            elif context == "steps":
                step, outputs, name = names
                assert outputs == "outputs"
                found = self.steps[step][name]
            else:
                assert (context, names) == ("github", ["action_path"])
                found = self.action_path
            if found:
                return found
        return ""

    def substituted(self, text: str) -> str:
        return re.sub(r"\$\{\{(.*?)\}\}", lambda found: self.value(found[1]), text)

    def wanted(self, step: dict[str, str]) -> bool:
        """Evaluate `if: a != 'b'`."""
        if "if" not in step:
            return True
        left, right = re.fullmatch(r"(\S+) != '(\w*)'", step["if"]).groups()
        return self.value(left) != right

    def run(self, step: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a step as `shell: bash` does, and keep its outputs."""
        assert step["shell"] == "bash"
        name = step.get("id", "none")
        files = {key: self.folder / place / name for key, place in
                 (("GITHUB_STEP_SUMMARY", "summary"), ("GITHUB_OUTPUT", "output"))}  # fmt: skip
        script = self.folder / "script.sh"
        script.write_text(self.substituted(step["run"]))
        given = {key: self.substituted(text) for key, text in step.get("env", {}).items()}
        variables = self.environment | {key: str(path) for key, path in files.items()} | given
        bash = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
        done = printed_by(*bash, script, env=variables, cwd=self.folder, timeout=500)
        lines = files["GITHUB_OUTPUT"].read_text().splitlines() if files["GITHUB_OUTPUT"].exists() else []
        self.steps[name] = dict(line.split("=", 1) for line in lines)
        return done

    def run_all(self) -> subprocess.CompletedProcess[str]:
        """Run the steps until one fails; return the last one that ran."""
        for step in filter(self.wanted, ACTION["runs"]["steps"]):
            done = self.run(step)
            if done.returncode:
                break
        return done

    @property
    def summary(self) -> str:
        path = self.folder / "summary" / "compare"
        return path.read_text("utf-8") if path.exists() else ""


@pytest.fixture
def runner(tmp_path):
    """Return a runner on which rooflens is installed, with a checkout in `repo` that lacks its commits."""
    write_suite(tmp_path)

    def make(**inputs):
        usual = {
            "suite": "tiny.toml", "providers": "bench/kernels.py\n", "arguments": SMALL, "repository": "repo",
            "base": "main", "head": "topic", "python": sys.executable, "rooflens": "installed",
        }  # fmt: skip
        return Runner(tmp_path, **usual | inputs)

    return make


def branches(folder, *versions):
    """A repository with the branch `main`, and `topic`, which began at its first commit."""
    made = repository(folder, *versions)
    git(made, "branch", "topic")
    git(made, "checkout", "--quiet", "-b", "other", "HEAD~1")
    git(made, "branch", "--force", "main")
    git(made, "commit", "--quiet", "--allow-empty", "--message", "what main has gained since")
    git(made, "branch", "--force", "main", "HEAD")
    return made


def broken(version):
    """The same file with a kernel that computes nothing."""
    return {path: text.replace("range(repeat * 1)", "range(0)") for path, text in version.items()}


def test_the_steps_call_no_other_action_and_take_inputs_by_their_environment():
    """A value inside the script would be run as a part of it."""
    steps = ACTION["runs"]["steps"]
    assert not any("uses" in step or "${{" in step["run"] for step in steps)
    named = set(re.findall(r"inputs\.([\w-]+)", str(steps)))
    assert named == set(ACTION["inputs"])


@pytest.mark.slow
def test_a_wrong_head_fails_with_5_and_the_summary_says_it(runner, tmp_path):
    branches(tmp_path / "repo", kernel(), broken(kernel()))
    made = runner()
    done = made.run_all()
    assert made.steps["compare"]["code"] == "5", done.stderr
    assert done.returncode == 5
    assert "verdicts: **none** · not compared: **1 broken**" in made.summary
    assert "![" not in made.summary, "images lie on the runner"
    assert len(made.summary.encode()) < LIMIT
    folder = Path(made.steps["compare"]["folder"])
    assert {"base", "head", "report.html", "compare.json"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    "fail_on, code, expected",
    [
        *(("slower", code, code) for code in (0, 1, 3, 4, 5)),
        *(("wrong", code, expected) for code, expected in ((0, 0), (3, 0), (4, 4), (5, 5))),
        *(("never", code, expected) for code, expected in ((0, 0), (1, 1), (3, 0), (4, 4), (5, 0))),
    ],
)
def test_fail_on_says_which_verdicts_fail(runner, fail_on, code, expected):
    made = runner(**{"fail-on": fail_on})
    made.steps["compare"] = {"code": str(code)}
    done = made.run(ACTION["runs"]["steps"][-1])
    assert done.returncode == expected
    assert ("::warning::" in done.stdout) == (code != expected)


@pytest.mark.parametrize(
    "inputs, words",
    [
        ({"fail-on": "sometimes"}, "::error::fail-on: sometimes is none of"),
        ({"base": "elsewhere"}, "check out with fetch-depth: 0"),
        ({"arguments": f"{SMALL} -p 'right"}, "::error::arguments: a quote is not closed"),
    ],
)
def test_mistakes_end_the_step_before_anything_is_measured(runner, tmp_path, inputs, words):
    branches(tmp_path / "repo", kernel(), kernel())
    made = runner(**inputs)
    done = made.run_all()
    assert done.returncode == 2
    assert words in done.stdout
    assert made.summary == ""


def test_a_comparison_that_cannot_begin_says_so_in_the_summary(runner, tmp_path):
    branches(tmp_path / "repo", kernel(), kernel())
    made = runner(suite="tinny.toml")
    done = made.run_all()
    assert (done.returncode, made.steps["compare"]["code"]) == (2, "2")
    assert "exit code 2" in made.summary


@pytest.mark.slow
def test_rooflens_is_installed_from_the_checkout_of_the_action(runner, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "python"], check=True)
    (site,) = (tmp_path / "python" / "lib").glob("python3*/site-packages")
    link_packages(site)
    wheel_of("setuptools", tmp_path / "wheels")  # for pip's isolated build
    made = runner(rooflens="", python=str(tmp_path / "python" / "bin" / "python"))
    made.action_path = str(package_source(tmp_path / "action"))
    made.environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    done = made.run(ACTION["runs"]["steps"][0])
    assert done.returncode == 0, done.stderr
    assert list(site.glob("rooflens-*.dist-info"))
