"""What plugins add, and which ones are there: the folders of `rooflens/plugins`, and entry points of other packages.

A plugin names what it adds as `module:attribute`, so that finding it imports nothing heavy. Another package offers
one, a `Plugin`, as an entry point of the group `rooflens.plugins`.
"""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from .errors import RooflensError, UsageError

GROUP = "rooflens.plugins"


class Hook(StrEnum):
    """Where a plugin may join in, and what it gives there."""

    CHAPTER = "chapter of a run"
    """`View -> Section | None`, in the reports that show every chapter."""
    LIMITATIONS = "limitations"
    """`View -> Iterator[Limitation]`: rows of the chapter on known limitations."""
    PLACES = "--address"
    """`address -> context` of the `Cluster` (`harness.sweep.cluster`) of the cluster there."""
    LAUNCH = "launched code"
    """`Binary -> Facts`: what the code of a launch shows: workgroups at once, instructions per weight, a schedule."""


@dataclass(frozen=True, slots=True)
class Command:
    """Where a subcommand lives, `module:attribute`, and its line in `rooflens --help`."""

    target: str
    short_help: str


@dataclass(frozen=True, slots=True)
class Plugin:
    """What a plugin adds: subcommands by name, and for hooks the `module:attribute` that joins in."""

    commands: Mapping[str, Command] = field(default_factory=dict)
    hooks: Mapping[Hook, str] = field(default_factory=dict)


def plugins() -> Mapping[str, Plugin]:
    """Return the plugins that are installed, by name, without those of other packages that are `left_out`."""
    return _found()[0]


def left_out() -> Mapping[str, str]:
    """Return the plugins of other packages that cannot be used, with the reason."""
    return _found()[1]


@cache
def _found() -> tuple[dict[str, Plugin], dict[str, str]]:
    package = f"{__package__.rpartition('.')[0]}.plugins"
    try:
        folders = importlib.import_module(package).__path__
    except ModuleNotFoundError:
        folders = []
    names = [found.name for found in pkgutil.iter_modules(folders) if found.ispkg]
    usable = {name: resolved(f"{package}.{name}.plugin:PLUGIN") for name in names}
    broken = {}
    for point in entry_points(group=GROUP):
        try:
            found = resolved(point.value)
        except (Exception, SystemExit) as error:  # whatever another package does, everything else works
            broken[point.name] = f"{type(error).__name__} when it was imported: {error}"
            continue
        if isinstance(found, Plugin) and all(isinstance(one, Command) for one in found.commands.values()):
            usable.setdefault(point.name, found)
        else:
            broken[point.name] = f"{point.value} is no rooflens.shapes.plugins.Plugin with Commands"
    return usable, broken


def resolved(target: str) -> Any:
    """Import what `module:attribute` names."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def provided(hook: Hook) -> Any:
    """Import what a plugin gives to a hook that is an option. Raises UsageError when there is none."""
    for found in joining(hook):
        return found
    raise UsageError(f"{hook}: no plugin that is installed does that; reinstall rooflens, or omit the option")


def joining(hook: Hook) -> Iterator[Any]:
    """Import what plugins give to a hook, in the order of their names. Raises RooflensError where that fails."""
    for name, plugin in sorted(plugins().items()):
        if hook in plugin.hooks:
            try:
                found = resolved(plugin.hooks[hook])
            except (ImportError, AttributeError) as error:
                raise RooflensError(f"the plugin {name} has no {hook}: {error}; update or uninstall it") from error
            yield found
