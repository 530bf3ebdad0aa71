"""Small git repositories with kernels in them."""

import os
from pathlib import Path

from ..environments import printed_by

ENVIRONMENT = os.environ | {
    "GIT_AUTHOR_NAME": "A. Author",
    "GIT_AUTHOR_EMAIL": "author@example.com",
    "GIT_COMMITTER_NAME": "A. Author",
    "GIT_COMMITTER_EMAIL": "author@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def git(folder, *arguments):
    return printed_by("git", "-C", folder, *arguments, env=ENVIRONMENT, check=True).stdout.strip()


def repository(folder: Path, *versions: dict[str, str]) -> Path:
    """A repository with one commit per version; a version is its files, path -> content, on top of the one before."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for number, files in enumerate(versions):
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content, encoding="utf-8")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--allow-empty", "--message", f"version {number}")
    return folder
