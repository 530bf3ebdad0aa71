"""Find the packages: pyproject.toml cannot say that the repository root itself is the package `rooflens`."""

from setuptools import find_namespace_packages, setup

FOLDERS = ("shapes", "kernels", "harness", "analysis", "reports", "api", "cli")
FILES_ONLY = ("*.sets", "*.suites", "*.data", "*.templates")

found = find_namespace_packages(
    include=[pattern for name in FOLDERS for pattern in (name, f"{name}.*")], exclude=FILES_ONLY
)
# Under pip it would not know its own name, and take itself for a module of the package.
setup(script_name="setup.py", packages=["rooflens", *(f"rooflens.{name}" for name in found)])
