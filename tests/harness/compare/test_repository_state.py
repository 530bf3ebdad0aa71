"""What a run stores of the repository of its kernels, in every form in which people have one."""

import subprocess

import pytest
from rooflens.harness.compare.worktrees import LONGEST_SUBJECT, Repository
from rooflens.shapes.errors import RooflensError
from rooflens.shapes.run_folder.manifest import StoredRepository

from ..repositories import git, repository


@pytest.fixture
def repo(tmp_path):
    return repository(tmp_path / "my repo", {"bench/k.py": "one"}, {"bench/k.py": "two"})


def state(folder):
    return Repository.at(folder).state([(folder / "bench" / "k.py").resolve()])


def test_commit_branch_subject_and_time_are_those_that_git_shows(repo):
    found = state(repo)
    assert found == StoredRepository(
        top=str(repo.resolve()),
        commit=git(repo, "rev-parse", "HEAD"),
        branch="main",
        subject="version 1",
        committed_at=git(repo, "show", "-s", "--format=%cI", "HEAD"),
        dirty=False,
    )
    assert found.label == f"{found.commit[:12]} on main"


def test_what_no_commit_has_is_dirty_and_what_has_no_kernels_is_not(repo):
    (repo / "notes.txt").write_text("beside the kernels")
    assert not state(repo).dirty
    (repo / "bench/k.py").write_text("three")
    assert state(repo).dirty
    assert state(repo).label.endswith(" on main, with uncommitted changes")
    git(repo, "add", "bench/k.py")
    assert state(repo).dirty
    git(repo, "commit", "--quiet", "-m", "three")
    assert not state(repo).dirty
    git(repo, "rm", "--quiet", "--cached", "bench/k.py")
    git(repo, "commit", "--quiet", "-m", "the kernels are no longer tracked")
    assert state(repo).dirty


def test_a_detached_head_has_no_branch(repo):
    git(repo, "checkout", "--quiet", "--detach", "HEAD~1")
    found = state(repo)
    assert (found.branch, found.subject) == ("", "version 0")
    assert found.label == found.commit[:12]


def test_a_shallow_clone_and_a_worktree_are_repositories(repo, tmp_path):
    git(tmp_path, "clone", "--quiet", "--depth=1", repo.as_uri(), "shallow")
    git(repo, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree"), "HEAD~1")
    assert state(tmp_path / "shallow").commit == git(repo, "rev-parse", "HEAD")
    found = state(tmp_path / "tree")
    assert (found.top, found.branch) == (str((tmp_path / "tree").resolve()), "other")


def test_a_submodule_is_a_repository_of_its_own_and_its_changes_are_changes(repo, tmp_path):
    outer = repository(tmp_path / "outer", {"bench/k.py": "outer"})
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repo), "kernels")
    git(outer, "commit", "--quiet", "-m", "with kernels")
    assert state(outer / "kernels").subject == "version 1"
    assert not state(outer).dirty
    (outer / "kernels/bench/k.py").write_text("changed inside")
    assert state(outer).dirty


def test_a_repository_without_a_commit_has_a_branch(tmp_path):
    git(tmp_path, "init", "--quiet", "--initial-branch=trunk")
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/k.py").write_text("new")
    found = state(tmp_path)
    assert (found.commit, found.branch, found.subject, found.dirty) == ("", "trunk", "", True)
    assert found.label == "no commit yet on trunk, with uncommitted changes"


def test_subjects_of_any_length_and_encoding_are_kept_as_far_as_they_go(repo):
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "x" * 5000)
    assert state(repo).subject == "x" * LONGEST_SUBJECT
    raw = subprocess.run(
        ["git", "-C", str(repo), "commit-tree", "HEAD^{tree}", "-p", "HEAD"],
        input=b"caf\xe9",
        env={"PATH": "/usr/bin:/bin", **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "a"),
             **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "a@example.com")},
        capture_output=True,
        check=True,
    )  # fmt: skip
    git(repo, "reset", "--quiet", "--hard", raw.stdout.decode().strip())
    assert state(repo).subject.startswith("caf")


def test_reading_the_state_leaves_the_index_alone(repo):
    (repo / "bench/k.py").touch()  # git would refresh its index
    before = (repo / ".git/index").read_bytes()
    (repo / ".git/index.lock").touch()  # and the user's own git may hold it
    assert not state(repo).dirty
    assert (repo / ".git/index").read_bytes() == before


def test_a_git_that_does_not_answer_is_an_error_in_time(repo, monkeypatch, tmp_path):
    here = Repository.at(repo)
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("rooflens.harness.compare.worktrees.MOST_S", 0.1)
    with pytest.raises(RooflensError, match=r"no answer within 0\.1 s"):
        here.state([])
