"""`rooflens merge`: join shards of one sweep into one run folder."""

import sys
from pathlib import Path

import click

from ..shapes.errors import UsageError
from .shared.options import FOLDER
from .shared.runs import find_run


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=find_run)
@click.option("-o", "--output", required=True, type=FOLDER, metavar="OUT", help="Folder of the merged run.")
def merge(runs: tuple[Path, ...], output: Path) -> None:
    """Join shards of one sweep into one run folder.

    Each RUN measured another part of the sweep, mostly by --filter. They have to agree in suite, seed, protocol,
    software and code, and in the model of the device; of one model, several devices may have taken part. No (cell,
    round) may be in two of them. The shards stay as they are, and every command that reads a run takes OUT. What is
    missing is measured by resuming a shard; then merge again.

    \b
    Examples:
      rooflens run llm4bit --filter "M <= 16" -o runs/small
      rooflens run llm4bit --filter "M > 16" -o runs/large
      rooflens merge -o runs/all runs/small runs/large
    """
    from ..analysis.frames.load import load_run
    from ..harness.storage.merge import merge as join
    from ..harness.storage.shards import opened
    from .shared.tables import show
    from .validate import inventory_section, take_inventory

    with opened(runs) as shards:
        for shard in shards:
            if shard.units or shard.manifest.tune is not None:
                load_run(shard.folder)  # names what is damaged by file, line and column, and refuses what is no run
        if not any(shard.units for shard in shards):
            raise UsageError("no cell of these runs is finished: there is nothing to merge")
        join(shards, output, ["rooflens", *sys.argv[1:]])
    show(inventory_section(take_inventory(load_run(output))))
