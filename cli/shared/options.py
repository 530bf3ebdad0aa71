"""The parameters of commands, made from what `Request` and `Protocol` declare, and what they were before."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ...shapes.option import FLAG, Option
from ...shapes.protocol import SETTINGS, Protocol, settings, settings_of
from ...shapes.request import FORMER, options

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def parameters(command: str) -> list[click.Parameter]:
    """Return the parameters of a command that are fields of a `Request`, or settings with flags of their own."""
    named = [one for one in settings_of(command).values() if one.flags]
    return [_parameter(one, command) for one in (*options().values(), *named) if command in one.commands]


def _parameter(one: Option, command: str) -> click.Parameter:
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
        shell_complete=(lambda context, _, begun: _begun(command, begun)) if one.kind is SETTINGS else None,
    )


def _begun(command: str, begun: str) -> list[str]:
    """Complete KEY=VALUE: the keys, and the values of those that have a choice."""
    known = ((name, value) for name, one in settings_of(command).items() for value in one.kind.choices or ("",))
    return [text for text in map("=".join, known) if text.startswith(begun)]


def _type(one: Option) -> click.ParamType[Any]:
    if one.kind.choices:
        return click.Choice(one.kind.choices)
    return click.Path(path_type=Path) if one.kind.is_path else click.STRING


def command_with(former: Mapping[str, str] | None = None) -> type[click.Command]:
    """Return a kind of command that answers its `former` options with what does it now, and explains its settings."""

    class Command(click.Command):
        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            given = [*args]
            try:
                return super().parse_args(ctx, args)
            except click.NoSuchOption as error:
                now = (former or {}).get(error.option_name) or self._setting(error.option_name, given)
                if now:
                    raise click.UsageError(f"{error.option_name} is no longer an option: {now}", ctx) from None
                raise

        def _setting(self, flag: str, words: list[str]) -> str:
            """Say how a flag is written as a setting, with its value among the words; "" where it is none."""
            name = flag.removeprefix("--").replace("-", "_")
            name = FORMER.get(name, name)
            if not (setting := settings_of(self.name or "").get(name)):
                return ""
            values = [word.partition("=")[2] for word in words if word.startswith(f"{flag}=")]
            if flag in words[:-1]:
                values.append(words[words.index(flag) + 1])
            return f"write --set {name}={(*values, setting.metavar)[0]}"

        def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            super().format_options(ctx, formatter)
            if rows := setting_rows(self):
                with formatter.section("Settings"):
                    formatter.write_dl(rows)

    return Command


def setting_rows(command: click.Command) -> list[tuple[str, str]]:
    """Return all settings with what they mean, for the help of `rooflens run` alone."""
    defaults = {name: f" [default: {value}]" for name, value in asdict(Protocol()).items() if value is not None}
    known = settings() if command.name == "run" else {}
    return [(f"--set {name}={one.metavar}", one.help + defaults.get(name, "")) for name, one in known.items()]
