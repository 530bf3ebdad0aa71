"""Where a provider file imports from: what is beside it, its project, and its git repository."""

from pathlib import Path

from rooflens.kernels.provider_paths import import_folders


def places(folder: Path, *names: str) -> list[Path]:
    return [folder / name for name in names]


def test_the_folder_of_the_file_then_the_repository_and_its_src(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    assert import_folders(tmp_path / "bench" / "gemm.py") == places(tmp_path, "bench", "", "src")


def test_a_project_inside_of_a_repository_comes_before_it(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pyproject.toml").touch()
    found = import_folders(tmp_path / "project" / "bench" / "gemm.py")
    assert found == places(tmp_path, "project/bench", "project", "")


def test_a_worktree_is_a_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    assert import_folders(tmp_path / "bench" / "gemm.py") == places(tmp_path, "bench", "")


def test_a_file_in_the_root_is_looked_for_once(tmp_path: Path) -> None:
    (tmp_path / "setup.py").touch()
    assert import_folders(tmp_path / "gemm.py") == [tmp_path]


def test_the_inside_of_a_package_is_nothing_to_import_from(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "__init__.py").touch()
    assert import_folders(tmp_path / "examples" / "gemm.py") == [tmp_path / "examples"]
