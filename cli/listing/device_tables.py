"""`rooflens list devices --check` and `--measured`: is a device table plausible, and what did others reach?"""

from pathlib import Path

import click

from ...shapes.errors import RooflensError
from ..shared.output import print_json
from ..shared.tables import print_table


def check_table(path: str, as_json: bool) -> None:
    """Print the faults of a device table, the shipped one for an empty path. Raises RooflensError if there are any."""
    from ...shapes.device_faults import check

    found = check(Path(path) if path else None)
    rows = [(device, fault) for device, faults in found.items() for fault in faults]
    if as_json:
        print_json(found)
    elif rows:
        print_table(("device", "fault"), rows, long=("fault",))
    else:
        click.echo(f"{len(found)} devices, nothing that cannot be right")
    if rows:
        wrong = sum(map(bool, found.values()))
        raise RooflensError(f"{wrong} of {len(found)} devices have a figure that cannot be right: correct the table")


def list_measured(name: str, as_json: bool) -> None:
    """Print published measurements of a device of the table, beside its published peaks."""
    from ...reports import formatting
    from ...shapes.device import spec
    from ...shapes.published_ceilings import published_ceilings

    peaks = spec(name)
    found = published_ceilings(name)
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo(f"no published measurement of {name} is known", err=True)
        return
    rows = []
    for one in found:
        peak = peaks.peak_flops.get(one.dtype) if one.dtype else peaks.bandwidth_bytes_per_s
        share = formatting.share(one.value / peak if peak else None)
        about = f"{one.source}; {one.caveat}" if one.caveat else one.source
        value = formatting.ceiling(one.ceiling, one.value)
        rows.append((one.ceiling, one.dtype, one.pattern, value, share, about))
    print_table(("ceiling", "dtype", "pattern", "measured", "of peak", "source"), rows, name, long=("source",))
