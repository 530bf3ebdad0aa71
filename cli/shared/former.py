"""Options that a command had once: each is answered with what to write instead."""

from collections.abc import Mapping

import click


def command_with(former: Mapping[str, str]) -> type[click.Command]:
    """Return a kind of command that knows its former options, and for each what does it now."""

    class Command(click.Command):
        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            try:
                return super().parse_args(ctx, args)
            except click.NoSuchOption as error:
                if now := former.get(error.option_name):
                    raise click.UsageError(f"{error.option_name} is no longer an option: {now}", ctx) from None
                raise

    return Command
