"""The source hash: changes with what a provider is made of, and with nothing else."""

import shutil
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from rooflens.kernels import registry, source_hash
from rooflens.kernels.provider import Provider
from rooflens.shapes.errors import RooflensError

from .planted_files import forgotten, planted

FILES = {
    "gemm.py": """
from rooflens.kernels.provider import Launch, Provider
import tiles_of_test
from pkg_of_test.decode import table
import json

class Mine(Provider):
    name = "mine"
    sources = ("gemm.cu",)

    def prepare(self, inputs, config=None):
        from pkg_of_test import late
        return Launch(late.run, inputs.empty_output())

PROVIDERS = [Mine()]
""",
    "gemm.cu": "__global__ void gemm() {}\n",
    "tiles_of_test.py": "SIZES = (16, 32)\n",
    "unrelated_of_test.py": "X = 1\n",
    "pkg_of_test/__init__.py": "",
    "pkg_of_test/decode.py": """
from . import codes
from .deep.inner import f

SOURCES = ("codes.csv",)
table = codes.CODES
""",
    "pkg_of_test/codes.csv": "0,1\n",
    "pkg_of_test/codes.py": "CODES = [0, 1]\n",
    "pkg_of_test/late.py": "import pkg_of_test.far\ndef run(): pass\n",
    "pkg_of_test/far.py": "import gemm\n",  # which ends
    "pkg_of_test/deep/__init__.py": "",
    "pkg_of_test/deep/inner.py": "from ..other import g\ndef f(): return g\n",
    "pkg_of_test/other.py": "g = 1\n",
    "pkg_of_test/unused.py": "z = 1\n",
}
PART_OF_IT = sorted(set(FILES) - {"unrelated_of_test.py", "pkg_of_test/unused.py"})


pytestmark = pytest.mark.usefixtures("clean_imports")


@pytest.fixture
def folder(tmp_path):
    return planted(tmp_path / "one", FILES)


def hash_of(folder):
    with forgotten():
        return source_hash.source_hash(registry.load([], [folder / "gemm.py"])["mine"])


def change(file, text="\n"):
    with file.open("a", encoding="utf-8") as stream:
        stream.write(text)


@pytest.mark.parametrize("changed", [*FILES, "new_of_test.py"])
def test_it_changes_with_the_files_that_the_provider_is_made_of_and_with_no_other(folder, tmp_path, changed):
    before = hash_of(folder)
    assert int(before, 16) < 16**16
    assert hash_of(shutil.copytree(folder, tmp_path / "deeper" / "two")) == before
    change(folder / changed, "\n// comment\n" if changed.endswith(".cu") else "\n# comment\n")
    assert (hash_of(folder) != before) is (changed in PART_OF_IT)


@pytest.mark.parametrize("place", ["", "src"])
def test_it_changes_with_the_packages_of_its_repository(tmp_path, place):
    (tmp_path / ".git").mkdir()
    package = planted(tmp_path / place / "pkg_of_test_at_root", {"__init__.py": "", "late_of_test.py": "VALUE = 1\n"})
    folder = planted(tmp_path / "bench", FILES)
    change(folder / "gemm.py", "from pkg_of_test_at_root import late_of_test\n")
    before = hash_of(folder)
    change(package / "late_of_test.py")
    assert hash_of(folder) != before


def test_code_behind_a_link_counts(folder, tmp_path):
    """Helpers of several providers may lie elsewhere, and be linked where they are imported."""
    shared = planted(tmp_path / "shared", {})
    shared.mkdir()
    for name in ("tiles_of_test.py", "pkg_of_test"):
        (folder / name).rename(shared / name)
        (folder / name).symlink_to(shared / name)
    values = [hash_of(folder)]
    for name in ("tiles_of_test.py", "pkg_of_test/codes.py", "pkg_of_test/codes.csv"):
        change(shared / name)
        values.append(hash_of(folder))
    assert len(set(values)) == 4


@pytest.mark.parametrize("suffix", EXTENSION_SUFFIXES)
def test_a_compiled_module_counts(folder, suffix):
    """It is built in place, and built anew when somebody works on it."""
    change(folder / "pkg_of_test/late.py", "def f():\n    from . import compiled\n")
    values = set()
    for content in (b"\x7fELF \0 import codes", b"\x7fELF \1"):
        (folder / f"pkg_of_test/compiled{suffix}").write_bytes(content)
        values.add(hash_of(folder))
    assert len(values) == 2


ODD = {
    "latin": b"# -*- coding: latin-1 -*-\n# caf\xe9\nimport unrelated_of_test\n",
    "marked": b"\xef\xbb\xbfimport unrelated_of_test\n",
    "long": b"import unrelated_of_test\nX = " + b"1 + " * 1100 + b"1\n",
    "old": b"print 'x'\n",
    "no text": b"\xff\xfe\n",
    "a zero": b"X = 1\0\n",
}


@pytest.mark.parametrize("name", ODD)
def test_whatever_python_runs_is_followed_and_what_it_cannot_run_counts_by_its_bytes(folder, name):
    """Another encoding, a byte order mark, and a sum that is nested more deeply than Python calls functions.

    An import of the others may be within `try`, or for another version of Python.
    """
    file = folder / "pkg_of_test/far.py"
    file.write_bytes(ODD[name])
    before = hash_of(folder)
    if b"import" in ODD[name]:
        change(folder / "unrelated_of_test.py")
    else:
        file.write_bytes(ODD[name] + b"\n")
    assert hash_of(folder) != before


def test_moving_code_between_files_changes_it(folder):
    before = hash_of(folder)
    first, second = folder / "pkg_of_test/codes.py", folder / "pkg_of_test/other.py"
    texts = first.read_text(), second.read_text()
    first.write_text(texts[1] + "CODES = g\n")
    swapped_once = hash_of(folder)
    second.write_text(texts[0] + "g = 1\n")
    assert len({before, swapped_once, hash_of(folder)}) == 3


def test_arguments_given_where_the_provider_is_listed_count(tmp_path):
    """The class comes from a helper; what tells two versions apart is the line that makes the instance."""
    members = "{'name': 'mine', '__init__': lambda self, block: None, 'prepare': print}"
    helper = f"from rooflens.kernels.provider import Provider\nMine = type('Mine', (Provider,), {members})\n"
    values = set()
    for block in (64, 128):
        files = {
            "tiles_of_test.py": helper,
            "gemm.py": f"from tiles_of_test import Mine\nPROVIDERS = [Mine({block})]\n",
        }
        values.add(hash_of(planted(tmp_path, files)))
    assert len(values) == 2


MADE = """
import sys
from tiles_of_test import SIZES
{imports}
from rooflens.kernels.provider import Launch, Provider

def prepare(self, inputs, config=None):
    return Launch(print, inputs.empty_output())

{made}
PROVIDERS = [Mine()]
"""

MEMBERS = "{'name': 'mine', 'prepare': prepare}"


@pytest.mark.parametrize(
    "imports, made",
    [
        ("", f"Mine = type('Mine', (Provider,), {MEMBERS})"),
        ("import abc", f"Mine = abc.ABCMeta('Mine', (Provider,), {MEMBERS})"),
        ("import types", f"Mine = types.new_class('Mine', (Provider,), {{}}, lambda space: space.update({MEMBERS}))"),
        ("", f"Mine = type('Mine', (Provider,), {MEMBERS} | {{'__module__': 'nowhere'}})"),
        ("", f"Mine = type('Mine', (Provider,), {MEMBERS} | {{'__module__': 'json.decoder'}})"),
        ("from pkg_of_test.deep.inner import Mine", ""),
    ],
)
def test_of_a_class_made_in_any_way_the_file_that_offers_it_is_followed(folder, imports, made):
    """The helper beside that file counts, and nothing of Python's own library."""
    inner = MADE.format(imports="", made=f"Mine = type('Mine', (Provider,), {MEMBERS})")
    planted(folder, {"gemm.py": MADE.format(imports=imports, made=made), "pkg_of_test/deep/inner.py": inner})
    before = hash_of(folder)
    change(folder / "unrelated_of_test.py")
    assert hash_of(folder) == before
    change(folder / "tiles_of_test.py")
    assert hash_of(folder) != before


def test_a_missing_source_is_an_error_that_names_it(folder):
    (folder / "gemm.cu").unlink()
    with pytest.raises(RooflensError, match=r"provider 'mine': its source 'gemm.cu' is not beside gemm.py"):
        hash_of(folder)


def test_shipped_providers_follow_their_imports_and_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    original = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: (read.append(self), original(self))[1])
    provider: Provider = registry.load(["dequant_blas"])["dequant_blas"]
    source_hash.source_hash(provider)
    names = {file.name for file in read}
    assert {"blas.py", "blas_forms.py", "quantize.py", "nested.py", "codes_4bit.csv", "provider.py"} <= names
    assert {"cpu.py", "dequantize.py"} <= names  # imported when they are needed only
    assert any(name.endswith(".cpp") for name in names)
    assert not {"upstream_bitsandbytes.py", "registry.py", "columns.py", "aot.py"} & names


def test_nothing_is_imported(folder):
    (folder / "pkg_of_test/late.py").write_text("raise SystemExit\n")
    source_hash.source_hash(registry.load([], [folder / "gemm.py"])["mine"])
    assert "pkg_of_test.late" not in sys.modules


def test_what_never_runs_and_what_is_no_list_of_files_does_not_count(folder):
    """Imports for the type checker only, and a variable of a function that happens to be called sources."""
    guard = "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import unrelated_of_test\n"
    (folder / "gemm.py").write_text(guard + FILES["gemm.py"] + "\ndef f():\n    sources = ('x_row', 'w')\n")
    before = hash_of(folder)
    change(folder / "unrelated_of_test.py")
    assert hash_of(folder) == before
