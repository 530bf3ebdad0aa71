"""The parameters of commands, made from what `Request` declares."""

from pathlib import Path
from typing import Any

import click

from ...shapes.request import FLAG, Option, options


def parameters(command: str) -> list[click.Parameter]:
    """Return the parameters of a command that are fields of a `Request`."""
    return [_parameter(one) for one in options().values() if command in one.commands]


def _parameter(one: Option) -> click.Parameter:
    if not one.flags:
        return click.Argument([one.name], required=False)
    names = [*one.flags, one.name]
    if one.kind is FLAG:
        return click.Option(names, is_flag=True, default=None, help=one.help)
    return click.Option(
        names,
        multiple=one.kind.repeated,
        type=_type(one),
        metavar=one.metavar or None,
        help=one.help,
        hidden=one.hidden,
    )


def _type(one: Option) -> click.ParamType[Any]:
    if one.kind.choices:
        return click.Choice(one.kind.choices)
    if one.kind.bounds:
        return click.IntRange(*one.kind.bounds)
    return click.Path(path_type=Path) if one.kind.is_path else click.STRING
