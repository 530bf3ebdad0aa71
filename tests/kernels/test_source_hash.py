"""The source hash: changes with what a provider is made of, and with nothing else."""

import shutil
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from rooflens.kernels import registry, source_hash
from rooflens.kernels.provider import Provider
from rooflens.shapes.errors import RooflensError

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
    "pkg_of_test/far.py": "import gemm\n",
    "pkg_of_test/deep/__init__.py": "",
    "pkg_of_test/deep/inner.py": "from ..other import g\ndef f(): return g\n",
    "pkg_of_test/other.py": "g = 1\n",
    "pkg_of_test/unused.py": "z = 1\n",
}
PART_OF_IT = sorted(set(FILES) - {"unrelated_of_test.py", "pkg_of_test/unused.py"})


@pytest.fixture(autouse=True)
def clean_imports() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    forget(modules)


def forget(keep: set[str]) -> None:
    for name in set(sys.modules) - keep:
        if name.startswith(("rooflens_user_", "tiles_of_test", "pkg_of_test")):
            del sys.modules[name]


def repository(folder: Path) -> Path:
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def hash_of(folder: Path) -> str:
    path, modules = list(sys.path), set(sys.modules)
    provider = registry.load([], [folder / "gemm.py"])["mine"]
    value = source_hash.source_hash(provider)
    sys.path[:] = path
    forget(modules)
    return value


def test_it_is_sixteen_hex_digits_and_repeatable(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    value = hash_of(folder)
    assert len(value) == 16
    assert int(value, 16) >= 0
    assert hash_of(folder) == value


@pytest.mark.parametrize("changed", PART_OF_IT)
def test_it_changes_with_every_file_that_the_provider_is_made_of(tmp_path: Path, changed: str) -> None:
    folder = repository(tmp_path)
    before = hash_of(folder)
    with (folder / changed).open("a", encoding="utf-8") as file:
        file.write("\n// comment\n" if changed.endswith(".cu") else "\n# comment\n")
    assert hash_of(folder) != before


@pytest.mark.parametrize("place", ["", "src"])
def test_it_changes_with_the_packages_of_its_repository(tmp_path: Path, place: str) -> None:
    (tmp_path / ".git").mkdir()
    package = tmp_path / place / "pkg_of_test_at_root"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    folder = repository(tmp_path / "bench")
    with (folder / "gemm.py").open("a", encoding="utf-8") as file:
        file.write("from pkg_of_test_at_root import late_of_test\n")
    (package / "late_of_test.py").write_text("VALUE = 1\n", encoding="utf-8")
    before = hash_of(folder)
    (package / "late_of_test.py").write_text("VALUE = 2\n", encoding="utf-8")
    assert hash_of(folder) != before


@pytest.mark.parametrize("changed", ["unrelated_of_test.py", "pkg_of_test/unused.py", "new_of_test.py"])
def test_it_does_not_change_with_other_files(tmp_path: Path, changed: str) -> None:
    folder = repository(tmp_path)
    before = hash_of(folder)
    with (folder / changed).open("a", encoding="utf-8") as file:
        file.write("# comment\n")
    assert hash_of(folder) == before


def test_it_is_the_same_in_a_copy_elsewhere(tmp_path: Path) -> None:
    folder = repository(tmp_path / "one")
    copy = shutil.copytree(folder, tmp_path / "deeper" / "two")
    assert hash_of(copy) == hash_of(folder)


def test_code_behind_a_link_counts(tmp_path: Path) -> None:
    """Helpers of several providers may lie elsewhere, and be linked where they are imported."""
    folder, shared = repository(tmp_path / "one"), tmp_path / "shared"
    shared.mkdir()
    for name in ("tiles_of_test.py", "pkg_of_test"):
        (folder / name).rename(shared / name)
        (folder / name).symlink_to(shared / name)
    values = [hash_of(folder)]
    for name in ("tiles_of_test.py", "pkg_of_test/codes.py", "pkg_of_test/codes.csv"):
        with (shared / name).open("a", encoding="utf-8") as file:
            file.write("\n")
        values.append(hash_of(folder))
    assert len(set(values)) == 4


@pytest.mark.parametrize("suffix", EXTENSION_SUFFIXES)
def test_a_compiled_module_counts(tmp_path: Path, suffix: str) -> None:
    """It is built in place, and built anew when somebody works on it."""
    folder = repository(tmp_path)
    with (folder / "pkg_of_test/late.py").open("a", encoding="utf-8") as file:
        file.write("def f():\n    from . import compiled\n")
    values = set()
    for content in (b"\x7fELF \0 import codes", b"\x7fELF \1"):
        (folder / f"pkg_of_test/compiled{suffix}").write_bytes(content)
        values.add(hash_of(folder))
    assert len(values) == 2


ODD = {
    "latin": b"# -*- coding: latin-1 -*-\n# caf\xe9\nimport unrelated_of_test\n",
    "marked": b"\xef\xbb\xbfimport unrelated_of_test\n",
    "long": b"import unrelated_of_test\nX = " + b"1 + " * 1100 + b"1\n",
}


@pytest.mark.parametrize("name", ODD)
def test_whatever_python_runs_is_followed(tmp_path: Path, name: str) -> None:
    """Another encoding, a byte order mark, and a sum that is nested more deeply than Python calls functions."""
    folder = repository(tmp_path)
    (folder / "pkg_of_test/far.py").write_bytes(ODD[name])
    before = hash_of(folder)
    (folder / "unrelated_of_test.py").write_text("X = 2\n")
    assert hash_of(folder) != before


@pytest.mark.parametrize("content", [b"print 'x'\n", b"\xff\xfe\n", b"X = 1\0\n"], ids=["old", "no text", "a zero"])
def test_what_python_cannot_run_counts_by_its_bytes(tmp_path: Path, content: bytes) -> None:
    """An import of it may be within `try`, or for another version of Python."""
    folder = repository(tmp_path)
    (folder / "pkg_of_test/far.py").write_bytes(content)
    before = hash_of(folder)
    (folder / "pkg_of_test/far.py").write_bytes(content + b"\n")
    assert hash_of(folder) != before


def test_moving_code_between_files_changes_it(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    before = hash_of(folder)
    first, second = folder / "pkg_of_test/codes.py", folder / "pkg_of_test/other.py"
    texts = first.read_text(), second.read_text()
    first.write_text(texts[1] + "CODES = g\n")
    swapped_once = hash_of(folder)
    second.write_text(texts[0] + "g = 1\n")
    assert len({before, swapped_once, hash_of(folder)}) == 3


def test_arguments_given_where_the_provider_is_listed_count(tmp_path: Path) -> None:
    """The class comes from a helper; what tells two versions apart is the line that makes the instance."""
    helper = (
        "from rooflens.kernels.provider import Launch, Provider\n"
        "class Mine(Provider):\n"
        "    name = 'mine'\n"
        "    def __init__(self, block): self.block = block\n"
        "    def prepare(self, inputs, config=None): return Launch(print, inputs.empty_output())\n"
    )
    (tmp_path / "tiles_of_test.py").write_text(helper)
    values = set()
    for block in (64, 128):
        (tmp_path / "gemm.py").write_text(f"from tiles_of_test import Mine\nPROVIDERS = [Mine({block})]\n")
        values.add(hash_of(tmp_path))
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
def test_of_a_class_made_in_any_way_the_file_that_offers_it_is_followed(tmp_path, imports, made):
    """The helper beside that file counts, and nothing of Python's own library."""
    folder = repository(tmp_path / "one")
    (folder / "gemm.py").write_text(MADE.format(imports=imports, made=made))
    (folder / "pkg_of_test/deep/inner.py").write_text(
        MADE.format(imports="", made=f"Mine = type('Mine', (Provider,), {MEMBERS})")
    )
    before = hash_of(folder)
    assert hash_of(shutil.copytree(folder, tmp_path / "deeper" / "two")) == before
    (folder / "unrelated_of_test.py").write_text("X = 2\n")
    assert hash_of(folder) == before
    (folder / "tiles_of_test.py").write_text("SIZES = (64,)\n")
    assert hash_of(folder) != before


def test_a_missing_source_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    (folder / "gemm.cu").unlink()
    with pytest.raises(RooflensError, match=r"provider 'mine': its source 'gemm.cu' is not beside gemm.py"):
        hash_of(folder)


def test_an_import_cycle_ends(tmp_path: Path) -> None:
    (tmp_path / "tiles_of_test.py").write_text("import tiles_of_test_too\n")
    (tmp_path / "tiles_of_test_too.py").write_text("import tiles_of_test\n")
    (tmp_path / "gemm.py").write_text(FILES["gemm.py"].replace("from pkg_of_test.decode import table", ""))
    (tmp_path / "gemm.cu").write_text("")
    assert len(hash_of(tmp_path)) == 16


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


def test_nothing_is_imported(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    (folder / "pkg_of_test/late.py").write_text("raise SystemExit\n")
    provider = registry.load([], [folder / "gemm.py"])["mine"]
    source_hash.source_hash(provider)
    assert "pkg_of_test.late" not in sys.modules


def test_what_never_runs_and_what_is_no_list_of_files_does_not_count(tmp_path: Path) -> None:
    """Imports for the type checker only, and a variable of a function that happens to be called sources."""
    folder = repository(tmp_path)
    gemm, types = folder / "gemm.py", folder / "types_of_test.py"
    gemm.write_text(
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import types_of_test\n"
        + gemm.read_text()
        + "\ndef f():\n    sources = ('x_row', 'w')\n"
    )
    types.write_text("X = 1\n")
    before = hash_of(folder)
    types.write_text("X = 2\n")
    assert hash_of(folder) == before
