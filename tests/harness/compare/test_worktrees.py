"""Checkouts of a real repository: the right commits, nothing left behind, and the user's tree untouched."""

import shutil

import pytest
from rooflens.harness.compare.worktrees import Repository
from rooflens.shapes.errors import RooflensError, UsageError
from rooflens.shapes.request import Request

from ..repositories import git, repository


@pytest.fixture
def repo(tmp_path):
    folder = repository(tmp_path / "repo", {"a.txt": "one"}, {"a.txt": "two"}, {"b/c.txt": "three"})
    git(folder, "tag", "start", "HEAD~2")
    return folder


def test_a_folder_inside_finds_the_repository(repo):
    assert Repository.at(repo / "b").top == repo.resolve()


def names(span):
    return Request(versions=span).versions


def test_spans_name_two_commits(repo):
    here, both = Repository.at(repo), (git(repo, "rev-parse", "HEAD~2"), git(repo, "rev-parse", "HEAD"))
    assert {here.commits(names(span)) for span in ("start..main", "start..", "HEAD~2..HEAD", "HEAD~2..")} == {both}


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        (("main", "..main", "start...main", ""), r"write BASE\.\.HEAD"),
        (("nothing..main", "start..--help", "start..HEAD~99"), "is not a commit of"),
    ],
)
def test_what_is_no_span_of_commits_is_told(repo, spans, words):
    for span in spans:
        with pytest.raises(UsageError, match=words):
            Repository.at(repo).commits(names(span))


def test_worktrees_come_and_go(repo, tmp_path):
    here = Repository.at(repo)
    base, head = here.commits(["start", "main"])
    assert here.describe("start").endswith(" version 0")
    before = git(repo, "status", "--porcelain", "--branch")
    for place, commit in ((tmp_path / "x" / "base", base), (tmp_path / "x" / "head", head)):
        here.add_worktree(place, commit)
    assert (tmp_path / "x" / "base" / "a.txt").read_text() == "one"
    assert (tmp_path / "x" / "head" / "b" / "c.txt").read_text() == "three"
    here.add_worktree(tmp_path / "x" / "base", head)  # an earlier attempt left it
    assert (tmp_path / "x" / "base" / "a.txt").read_text() == "two"
    for name in ("base", "head"):
        here.remove_worktree(tmp_path / "x" / name)
    assert git(repo, "worktree", "list").count("\n") == 0
    assert git(repo, "status", "--porcelain", "--branch") == before
    assert not (tmp_path / "x" / "base").exists()


@pytest.mark.parametrize("name", ["hook", "monitor"])
def test_nothing_that_a_repository_names_is_started(repo, tmp_path, name):
    """Hooks and file monitors of a clone are programs of whoever made it."""
    program, ran = tmp_path / name, tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    if name == "hook":
        shutil.copy(program, repo / ".git" / "hooks" / "post-checkout")
    else:
        git(repo, "config", "core.fsmonitor", str(program))
    here = Repository.at(repo)
    here.add_worktree(tmp_path / "x" / "base", git(repo, "rev-parse", "HEAD"))
    here.is_dirty()
    assert not ran.exists()


def test_changes_without_a_commit_are_noticed(repo):
    here = Repository.at(repo)
    (repo / "untracked.txt").write_text("not in any version, but harmless")
    assert not here.is_dirty()
    (repo / "a.txt").write_text("changed")
    assert here.is_dirty()


def test_git_that_fails_says_why(repo, tmp_path):
    with pytest.raises(RooflensError, match=r"git worktree: .*"):
        Repository.at(repo).add_worktree(tmp_path / "y", "0" * 40)


def test_identity_has_names_subjects_and_lines_of_every_file(tmp_path):
    where = repository(
        tmp_path / "r", {"a b.py": "1\n2\n3\n", "old.py": "x\n"}, {"a b.py": "1\n2\nthree\nfour\n", "ü.py": "y\n"}
    )
    (where / "image.bin").write_bytes(bytes(range(256)))
    git(where, "add", "image.bin")
    git(where, "rm", "-q", "old.py")
    git(where, "commit", "-q", "-m", "a subject | with <b>\n\nand a body")
    here = Repository.at(where)
    span = ("HEAD~2", "")
    found = here.identity(span, *here.commits(span))
    assert (found["base"]["name"], found["head"]["name"]) == ("HEAD~2", "HEAD")
    assert found["head"]["subject"] == "a subject | with <b>"
    assert found["head"]["commit"] == git(where, "rev-parse", "HEAD")
    assert found["commits"] == 2
    assert {path: (added, removed) for path, added, removed in found["files"]} == {
        "a b.py": (2, 1), "image.bin": (None, None), "old.py": (0, 1), "ü.py": (1, 0),
    }  # fmt: skip
    assert here.identity(("HEAD", "HEAD"), *here.commits(("HEAD", "HEAD")))["files"] == []


def test_worktrees_of_killed_processes_are_forgotten_and_no_others(tmp_path):
    top = repository(tmp_path / "repo", {"a": "1"}, {"a": "2"})
    found, head = Repository.at(top), git(top, "rev-parse", "HEAD")
    mine, others = tmp_path / "x" / "comparison-1" / "base" / "tree", tmp_path / "x" / "comparison-10" / "base" / "tree"
    for folder in (mine, others):
        found.add_worktree(folder, head)
    for folder in (mine, others):
        shutil.rmtree(folder)  # on a disk that is not there just now, or of a process that was killed
    found.forget_worktrees("comparison-1")
    listed = git(top, "worktree", "list")
    assert str(mine) not in listed
    assert str(others) in listed
    found.add_worktree(mine, head)


def test_a_commit_is_known_by_its_hash_where_it_is(tmp_path):
    top = repository(tmp_path / "repo", {"a": "1"})
    assert Repository(top).has(git(top, "rev-parse", "HEAD"))
    assert not Repository(top).has("a" * 40)
    (tmp_path / "plain").mkdir()
    with pytest.raises(RooflensError, match="not a git repository"):
        Repository(tmp_path / "plain").has("a" * 40)


@pytest.fixture
def with_submodule(repo, tmp_path, monkeypatch):
    """The repository with a submodule; git clones one from a local path only where it is told to."""
    (tmp_path / ".gitconfig").write_text('[protocol "file"]\n\tallow = always\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    library = repository(tmp_path / "library", {"library.py": ""})
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "3rdparty/a library")
    git(repo, "commit", "--quiet", "--message", "with a submodule")
    return repo


def test_a_checkout_has_the_submodules_of_the_working_tree_and_fetches_no_others(with_submodule, tmp_path):
    here, place = Repository.at(with_submodule), "3rdparty/a library/library.py"
    here.add_worktree(tmp_path / "with", "HEAD")
    assert (tmp_path / "with" / place).is_file()
    git(with_submodule, "submodule", "--quiet", "deinit", "--all")
    shutil.rmtree(tmp_path / "library")
    here.add_worktree(tmp_path / "without", "HEAD")
    assert not any((tmp_path / "without" / place).parent.iterdir())
