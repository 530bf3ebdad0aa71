"""The registry: lazy, complete, and clear about what is wrong with a user's file or an installed plug-in."""

import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from rooflens.kernels import registry
from rooflens.kernels.provider import Provider
from rooflens.shapes.errors import RooflensError, UsageError

from .planted_files import planted

PROVIDER_FILE = """
from rooflens.kernels.provider import Launch, Provider
from {helper} import VALUE


class Mine(Provider):
    name = "{name}"
    value = VALUE

    def prepare(self, inputs, config=None):
        out = inputs.empty_output()
        return Launch(lambda: out.zero_(), out)


PROVIDERS = [Mine()]
"""


pytestmark = pytest.mark.usefixtures("clean_imports")


def write(folder: Path, text: str, name: str = "my_kernels.py") -> Path:
    return planted(folder, {name: text}) / name


def provider_file(folder: Path, name: str = "mine", value: int = 1) -> Path:
    helper = f"helper_of_{folder.name}"
    write(folder, f"VALUE = {value}\n", f"{helper}.py")
    return write(folder, PROVIDER_FILE.format(helper=helper, name=name))


def with_role(role: str) -> str:
    named = '    name = "{name}"\n'
    text = PROVIDER_FILE.replace(named, f"{named}    role = {role}\n")
    return f"from rooflens.kernels.provider import Role\n{text}"


def plug_in(monkeypatch: pytest.MonkeyPatch, name: str, target: str) -> None:
    point = EntryPoint(name=name, value=target, group=registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])


def test_asked_for_providers_come_in_order_and_once() -> None:
    assert list(registry.load(["dequant_blas", "blas", "dequant_blas"])) == ["dequant_blas", "blas"]


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    with pytest.raises(UsageError, match="unknown provider 'simt_4bits': did you mean simt_4bit"):
        registry.load(["simt_4bits"])


def test_a_users_file_is_loaded_with_its_neighbours(tmp_path: Path) -> None:
    file = provider_file(tmp_path / "repo", value=5)
    loaded = registry.load(["blas", "mine"], [file])
    assert list(loaded) == ["mine", "blas"]
    assert loaded["mine"].value == 5  # type: ignore[attr-defined]
    assert registry.load([], [file])["mine"] is loaded["mine"]


def test_files_of_the_same_name_in_two_folders_are_two_files(tmp_path: Path) -> None:
    base, head = provider_file(tmp_path / "base", "base_gemm", 1), provider_file(tmp_path / "head", "head_gemm", 2)
    loaded = registry.load([], [base, head])
    assert [provider.value for provider in loaded.values()] == [1, 2]  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_late", [False, True])
def test_two_files_with_different_modules_of_one_name_are_refused(tmp_path: Path, is_late: bool) -> None:
    """Both would run the module of the file that is loaded first: two versions would be one."""
    text = PROVIDER_FILE.format(helper="helper_of_both", name="{name}")
    if is_late:
        line = "from helper_of_both import VALUE\n"
        text = text.replace(line, "").replace("VALUE\n", "1\n").replace("        out =", f"        {line}        out =")
    files = []
    for number, name in enumerate(("base", "head")):
        write(tmp_path / name, f"VALUE = {number}\n", "helper_of_both.py")
        files.append(write(tmp_path / name, text.replace("{name}", name)))
    with pytest.raises(UsageError, match=r"one module helper_of_both, but for .*/base/my_kernels\.py it is .*/head/"):
        registry.load([], files)


def test_what_only_one_of_two_files_has_beside_it_is_no_other_files_import(tmp_path: Path) -> None:
    first, second = provider_file(tmp_path / "one", "first"), provider_file(tmp_path / "two", "second")
    write(tmp_path / "one", "VALUE = 2\n", "helper_of_two.py")
    with pytest.raises(UsageError, match="one module helper_of_two"):
        registry.load([], [first, second])
    (tmp_path / "one" / "helper_of_two.py").unlink()
    assert list(registry.load([], [first, second])) == ["first", "second"]


def test_a_taken_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="provider name 'blas' is taken"):
        registry.load([], [provider_file(tmp_path / "repo", "blas")])
    first, second = provider_file(tmp_path / "one"), provider_file(tmp_path / "two")
    with pytest.raises(UsageError, match="provider name 'mine' is taken"):
        registry.load([], [first, second])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module_here\n", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("def broken(:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        (
            "import json\n\nraise ImportError('no CUDA here\\n  install it')\n",
            "my_kernels.py:3: ImportError: no CUDA here install it",
        ),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
        ("", "; to time its functions as they are: rooflens bench "),
        ("PROVIDERS = 3\n", "define PROVIDERS"),
        ("PROVIDERS = ['blas']\n", "define PROVIDERS"),
        ("PROVIDERS = []\n", "PROVIDERS is empty"),
        (PROVIDER_FILE.replace("PROVIDERS = [Mine()]", "PROVIDERS = Mine()"), "define PROVIDERS"),
        (PROVIDER_FILE.replace("PROVIDERS = [Mine()]", "PROVIDERS = [Mine]"), "define PROVIDERS"),
        (PROVIDER_FILE.replace('    name = "{name}"\n', ""), "Mine needs a class attribute `name`"),
        (PROVIDER_FILE.replace("prepare", "prepares"), "TypeError: Can't instantiate abstract class Mine"),
        (with_role("Role.BLAS"), "AttributeError: there is no Role.BLAS: it is called Role.REFERENCE now"),
        (with_role("Role.FASTEST"), "AttributeError: there is no Role.FASTEST: choose one of Role.CANDIDATE, "),
        (with_role("'blas'"), "Mine.role is 'blas': it is called Role.REFERENCE now"),
        (with_role("None"), "Mine.role is None: choose one of Role.CANDIDATE"),
        ("import json.no_such_module_here\n", "/json, where json is"),
    ],
)
def test_what_is_wrong_with_a_users_file_is_one_line_that_names_it(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, "VALUE = 1\n", "helper_of_this.py")
    file = write(tmp_path, text.replace("{helper}", "helper_of_this").replace("{name}", "mine"))
    path = list(sys.path)
    with pytest.raises(UsageError) as caught:
        registry.load([], [file])
    assert re.match(rf"--providers {re.escape(str(file))}(:\d+)?: ", str(caught.value))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    if "Error" in message or "Exit" in message:
        assert sys.path == path


def test_a_module_that_is_not_found_is_told_with_the_places_where_it_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "repo" / "src").mkdir(parents=True)
    (tmp_path / "repo" / "setup.py").touch()
    file = write(tmp_path / "repo" / "bench", "\nimport no_such_module_here.deeper\n")
    with pytest.raises(UsageError) as caught:
        registry.load([], [file])
    places = ", ".join(str(tmp_path / "repo" / name) for name in ("bench", "", "src")).replace("/, ", ", ")
    assert str(caught.value) == (
        f"--providers {file}:2: ModuleNotFoundError: No module named 'no_such_module_here'; "
        f"looked in {places}, and among the packages of {sys.executable}"
    )


def test_a_file_that_failed_can_be_mended_and_loaded(tmp_path: Path) -> None:
    file = write(tmp_path, "1 / 0\n")
    with pytest.raises(UsageError):
        registry.load([], [file])
    write(tmp_path, "VALUE = 1\n", "helper_of_this.py")
    file.write_text(PROVIDER_FILE.format(helper="helper_of_this", name="mine"), encoding="utf-8")
    assert list(registry.load([], [file])) == ["mine"]


def test_a_missing_file_and_one_that_is_not_python(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        registry.load([], [tmp_path / "nothing.py"])
    with pytest.raises(UsageError, match="not a Python file"):
        registry.load([], [write(tmp_path, "x", "kernel.cu")])


class Plugged(Provider):
    name = "plugged"

    def prepare(self, inputs, config=None):
        raise AssertionError("never prepared")


class PluggedWithOldRole(Plugged):
    role = "blas"


PLUGGED = Plugged()
OLD_ROLE = PluggedWithOldRole()


def test_an_installed_plug_in_is_listed_and_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, "plugged", f"{__name__}:PLUGGED")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[PLUGGED.__module__])
    assert registry.names()[-1] == "plugged"
    assert registry.load(["plugged"]) == {"plugged": PLUGGED}


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("plugged", "no_such_package_here:X", "cannot be imported: No module named 'no_such_package_here'"),
        ("plugged", "json:X", "cannot be imported: module 'json' has no attribute 'X'"),
        ("plugged", "json:JSONDecoder", "is not a Provider instance of that name"),
        ("blas2", "rooflens.kernels.fourbit.blas:BLAS", "is not a Provider instance of that name"),
        ("plugged", f"{__name__}:OLD_ROLE", "role 'blas': it is called Role.REFERENCE now"),
    ],
)
def test_a_broken_plug_in_is_an_error_that_names_it(monkeypatch, name, target, message):
    plug_in(monkeypatch, name, target)
    monkeypatch.setitem(sys.modules, __name__, sys.modules[PLUGGED.__module__])
    with pytest.raises(RooflensError, match=f"provider '{name}'") as caught:
        registry.load([name])
    assert message in str(caught.value)


def test_a_plug_in_cannot_take_the_name_of_a_shipped_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, "blas", "no_such_package_here:X")
    assert registry.names().count("blas") == 1
    assert registry.load(["blas"])["blas"].name == "blas"
