"""Find the packages, where the repository root itself is `rooflens`, and make the links of README.md absolute."""

import re
import tomllib
from pathlib import Path

from setuptools import find_namespace_packages, setup

ROOT = Path(__file__).parent
FOLDERS = ("shapes", "kernels", "harness", "analysis", "reports", "api", "cli", "plugins")
LEFT_OUT = ("*.sets", "*.suites", "*.data", "*.templates", "*.tests", "*.tests.*")


def package_page() -> str:
    """Return README.md as a package index shows it, where no other file of the repository is at hand.

    Its relative links become links into the repository of `[project.urls]`, in GitHub's form. Without a repository,
    links become plain text and images are left out.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    repository = project.get("urls", {}).get("Repository", "").rstrip("/")

    def absolute(link: re.Match[str]) -> str:
        image, text, target = link.groups()
        if target.startswith("#") or "://" in target:
            return link[0]
        if repository:
            return f"{image}[{text}]({repository}/{'raw' if image else 'blob'}/HEAD/{target})"
        return "" if image else text

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", absolute, (ROOT / "README.md").read_text("utf-8"))


found = find_namespace_packages(
    include=[pattern for name in FOLDERS for pattern in (name, f"{name}.*")], exclude=LEFT_OUT
)
setup(
    script_name="setup.py",  # under pip it would not know its own name, and take itself for a module of the package
    packages=["rooflens", *(f"rooflens.{name}" for name in found)],
    long_description=package_page(),
    long_description_content_type="text/markdown",
)
