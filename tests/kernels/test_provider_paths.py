"""Where a provider file imports from: what is beside it, its project, and its git repository."""

import pytest
from rooflens.kernels.provider_paths import import_folders

from .planted_files import planted


@pytest.mark.parametrize(
    ("files", "provider", "folders"),
    [
        ((".git/HEAD", "src/x"), "bench/gemm.py", ("bench", "", "src")),
        ((".git/HEAD", "project/pyproject.toml"), "project/bench/gemm.py", ("project/bench", "project", "")),
        ((".git",), "bench/gemm.py", ("bench", "")),  # a worktree
        (("setup.py",), "gemm.py", ("",)),  # in the root, which is looked in once
        (("pyproject.toml", "__init__.py"), "examples/gemm.py", ("examples",)),  # inside of a package
    ],
)
def test_folders_in_their_order(tmp_path, files, provider, folders):
    planted(tmp_path, dict.fromkeys(files, ""))
    assert import_folders(tmp_path / provider) == [tmp_path / name for name in folders]
