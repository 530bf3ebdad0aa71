"""The command line as a whole: help without weight, and every failure as one line with its exit code."""

import errno
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest
from rooflens import __version__
from rooflens.cli.main import app, commands
from rooflens.shapes import errors

from ..environments import printed_by

HELP_BUDGET_S = 0.2


def all_commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    """Every command and group below `command`, with the words that call it."""
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found += all_commands(below, (*path, name))
    return found


EVERY_COMMAND = all_commands(app)
by_name = pytest.mark.parametrize(
    "path, command", EVERY_COMMAND, ids=lambda it: " ".join(it) if isinstance(it, tuple) else ""
)


def call(*arguments: str, code: str = "", cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess:
    """Run the command line in a process of its own; `code` runs there first."""
    program = f"import sys\n{code}\nfrom rooflens.cli.main import main\nsys.exit(main())"
    return printed_by(sys.executable, "-c", program, *arguments, cwd=cwd, env=os.environ | environment, timeout=120)


@by_name
def test_every_command_is_documented_with_an_example(path, command, invoke):
    shown = invoke(*path, "--help").out
    assert "Example" in shown
    assert f"  rooflens {' '.join(path)}".rstrip() in shown
    undocumented = [
        parameter.name for parameter in command.params if isinstance(parameter, click.Option) and not parameter.help
    ]
    assert not undocumented


def test_help_of_every_command_needs_no_torch_and_its_lack_is_told_with_the_way_out():
    calls = [[*path, "--help"] for path, _ in EVERY_COMMAND]
    without = "sys.modules |= dict.fromkeys(('torch', 'triton', 'bitsandbytes'))\n"
    help_of_all = f"from rooflens.cli.main import main\nassert not any([main(call) for call in {calls}])"
    done = call("list", "providers", code=without + help_of_all)
    assert done.returncode == 1, done.stderr
    assert "Usage" in done.stdout
    assert done.stderr.count("\n") == 1
    assert "torch" in done.stderr
    assert "pip install" in done.stderr


@pytest.mark.parametrize("name", commands())
def test_table_of_commands_agrees_with_the_commands(name):
    command = app.get_command(click.Context(app), name)
    assert command is not None
    assert command.name == name
    beginning = re.sub(r" \([^)]*\)", "", command.help or "")
    assert beginning.startswith(commands()[name].short_help)


@pytest.mark.parametrize(
    ("words", "light"),
    [
        (["--help"], {"click", "rooflens"}),
        (["--version"], {"click", "rooflens"}),
        (["list", "suites", "--json"], {"click", "rooflens", "rich", "markdown_it", "mdurl", "pygments"}),
    ],
)
def test_what_measures_nothing_imports_nothing_heavy(words, light):
    listing = "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    code = f"import sys\n{listing}\nfrom rooflens.cli.main import main\nassert main({words}) == 0\n{listing}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, *_, after = done.stdout.splitlines()
    new = set(after.split()) - set(before.split())
    assert new - sys.stdlib_module_names <= light
    assert "click" in new


@pytest.mark.exclusive
def test_help_is_fast():
    """The least CPU time of several runs: wall time would measure how busy the machine is."""

    def cpu_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "rooflens.cli", "--help"], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(cpu_seconds() for _ in range(7)) <= HELP_BUDGET_S


def test_without_a_word_it_prints_what_there_is(invoke):
    assert invoke("--version").out == f"rooflens {__version__}\n"
    assert invoke().out.startswith("Usage: rooflens")
    out, err = invoke("list")
    assert "suites" in out.split("Commands:")[1]
    assert "..." not in out.split("Commands:")[1], "a help line that is cut off"
    assert err == ""


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["lsit"], "unknown command 'lsit': did you mean list"),
        (["--no-such-option"], "--no-such-option"),
        (["list", "nonsense"], "nonsense"),
        (["list", "suite"], "Did you mean 'suites'? See rooflens list --help"),
        (["list", "suites", "--jsn"], "Did you mean '--json'? See rooflens list suites --help"),
        (["crossover"], "RUN"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments, words, refused):
    assert words in refused(*arguments)


@pytest.fixture
def failing(monkeypatch):
    """Make `rooflens list suites` raise what the test sets."""

    def arrange(error: BaseException) -> None:
        def names() -> list[str]:
            raise error

        monkeypatch.setattr("rooflens.shapes.suite.names", names)

    return arrange


@pytest.mark.parametrize(
    "error, exit_code, line",
    [
        (errors.RooflensError("the fan is loud"), 1, "the fan is loud"),
        (errors.UsageError("unknown\n  suite"), 2, "unknown suite"),
        (errors.RegressionError("slower"), 3, "slower"),
        (errors.IncompleteError("2 cells are missing"), 4, "2 cells are missing"),
        (errors.CorrectnessError("wrong"), 5, "wrong"),
        (errors.Interrupted("stopped; resume with --resume"), 130, "stopped; resume with --resume"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (
            OSError(errno.ENOSPC, "No space left on device", "runs/a/cells.csv"),
            1,
            "runs/a/cells.csv: No space left on device; free some space, then continue an unfinished run with --resume",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "x.csv"), 1, "x.csv: Permission denied"),
    ],
    ids=lambda it: type(it).__name__ if isinstance(it, BaseException) else "",
)
def test_every_failure_is_one_line_with_its_exit_code(failing, invoke, error, exit_code, line):
    failing(error)
    out, err = invoke("list", "suites", code=exit_code)
    assert out == ""
    assert err.strip() == f"rooflens: error: {line}"


def test_a_line_of_100_kb_is_cut(failing, refused):
    failing(errors.UsageError(f"no {'x' * 100_000}: see --help"))
    err = refused("list", "suites")
    assert len(err) < 2100
    assert err.endswith("x: see --help\n")


def test_an_unexpected_exception_is_named_and_debug_shows_where(failing, invoke, refused):
    failing(ZeroDivisionError("division by zero\nsecond line"))
    err = refused("list", "suites", code=1)
    assert "unexpected ZeroDivisionError: division by zero (test_main.py:" in err
    assert "rooflens --debug" in err

    failing(ZeroDivisionError("division by zero"))
    err = invoke("--debug", "list", "suites", code=1).err
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("rooflens: error: unexpected ZeroDivisionError")


@pytest.mark.parametrize(
    ("stdout", "codes", "words"),
    [
        ("| head -c 1 > /dev/null", "01", ""),  # 0: all of it fitted into the pipe before its reader left
        (">&-", "0", ""),
        ("> /dev/full", "1", "rooflens: error: No space left on device; free some space"),
    ],
)
def test_a_stdout_that_takes_nothing_is_no_error_or_one_line(stdout, codes, words):
    script = f"{sys.executable} -m rooflens.cli list columns --json {stdout}; echo ${{PIPESTATUS[0]}} >&2"
    *told, code = subprocess.run(["bash", "-c", script], capture_output=True, text=True).stderr.splitlines()
    assert code in codes
    assert len(told) == bool(words)
    assert all(line.startswith(words) for line in told)


def test_a_terminal_without_unicode_gets_question_marks():
    show = "from rooflens.cli.shared.tables import print_table\n"
    show += "import rooflens.shapes.suite as s\ns.names = lambda: print_table(['x'], [['\u2265 64']]) or []"
    done = call("list", "suites", code=show, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert "? 64" in done.stdout
