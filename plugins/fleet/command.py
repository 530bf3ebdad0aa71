"""`rooflens fleet`: the machines of a cluster of Ray."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ...shapes.errors import UsageError, quote
from ...shapes.protocol import MOST

if TYPE_CHECKING:
    from .ray_cluster import RayCluster


@contextmanager
def places(address: str) -> "Iterator[RayCluster]":
    """Join the cluster of Ray at `address`, HOST:PORT or "auto"; yield its devices."""
    from . import ray_environment

    found = ray_environment.for_address(address)
    from . import ray_cluster

    with ray_cluster.joined(found) as there:
        yield there


class _Group(click.Group):
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "run":
            raise UsageError("rooflens fleet run is rooflens run: add --jobs local, for all GPUs here, or --address")
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
def fleet() -> None:
    """Start and list the machines that --address measures on, with Ray.

    It needs the extra fleet: pip install 'rooflens[fleet]'. Devices are found by their architecture, which each node of
    Ray offers as a resource.

    \b
    Examples:
      rooflens fleet start                         # on the first machine, HOST
      rooflens fleet start --address HOST:6379     # on every other one
      rooflens fleet devices                       # then on any of them
      rooflens run llm4bit --address auto
    """


_DEVICE = click.option(
    "--device", default="auto", metavar="NAME", help="cpu or cuda; the default is the GPUs, if there are any."
)
_SLOTS = click.option(
    "--slots", type=click.IntRange(1, MOST), default=1, help="Parts to divide a CPU into; the default is 1."
)


@fleet.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--address", default="", metavar="HOST:PORT", help="Join the cluster of this head; without it, become one."
)
@click.option("--port", type=click.IntRange(1, 65535), default=6379, help="Port of a new head; the default is 6379.")
@_DEVICE
@_SLOTS
@click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[RAY OPTIONS]")
def start(address: str, port: int, device: str, slots: int, more: tuple[str, ...]) -> None:
    """Start Ray on this machine, so that its devices can be measured; ray stop ends it (and other Rays of yours here).

    What it adds to ray start: the devices are offered by architecture, workers run at the priority of other programs,
    usage statistics are off, and only who has the token of ~/.ray/auth_token may use the cluster. The head makes the
    token if there is none: copy the file to the other machines. Variables of Ray that are set already win. Other
    options go to ray start as they are.

    \b
    Examples:
      rooflens fleet start
      rooflens fleet start --address 10.0.0.7:6379
      rooflens fleet start --device cpu --slots 2 --block
    """
    from ...shapes.architectures import is_gpu
    from . import ray_environment

    ray_environment.for_node(address)
    if not address:
        ray_environment.refuse_taken(port)
    offers = _offers(device, slots)
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    if os.environ["RAY_AUTH_MODE"] == "token" and not ray_environment.has_token():
        os.umask(0o077)  # the token is nobody else's business
        subprocess.run([*ray, "get-auth-token", "--generate"], stdout=subprocess.DEVNULL, check=True, timeout=60)
        click.echo(f"made ~/{ray_environment.TOKEN}: copy it to the other machines", err=True)
    place = ["--address", address] if address else ["--head", "--port", str(port), "--include-dashboard=false"]
    gpus = sum(count for arch, count in offers.items() if is_gpu(arch))
    offered = ["--num-gpus", str(gpus), "--resources", json.dumps(offers)]
    click.echo(f"offers {_shown(offers)}", err=True)
    sys.stdout.flush()
    os.execv(sys.executable, [*ray, "start", *place, "--disable-usage-stats", *offered, *more])


@fleet.command()
@_DEVICE
@_SLOTS
def resources(device: str, slots: int) -> None:
    """Print what this machine offers a fleet, as JSON for a ray start of your own.

    \b
    Examples:
      rooflens fleet resources
      ray start --head --resources "$(rooflens fleet resources)"
      ray start --address HOST:6379 --resources "$(rooflens fleet resources --device cpu --slots 2)"
    """
    click.echo(json.dumps(_offers(device, slots)))


def _offers(device: str, slots: int) -> dict[str, int]:
    from ...harness.sweep.cluster import offer

    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device {quote(device)}: write cpu or cuda; single GPUs are chosen by CUDA_VISIBLE_DEVICES")
    return {arch: len(names) for arch, names in offer(device, slots).items()}


@fleet.command()
@click.option("--address", default="auto", metavar="auto|HOST:PORT", help="The cluster of Ray; the default is auto.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def devices(address: str, as_json: bool) -> None:
    """List the places for devices that a cluster of Ray offers, and what keeps others from being offered.

    \b
    Examples:
      rooflens fleet devices
      rooflens fleet devices --address 10.0.0.7:6379 --json
    """
    from ...cli.shared.tables import print_table

    with places(address) as found:
        nodes = found.nodes()
    if as_json:
        click.echo(json.dumps(nodes, indent=1))
        return
    rows = [[node["host"], node["address"], _shown(node["offers"]), node["remark"]] for node in nodes]
    print_table(("host", "address", "offers", "remark"), rows, long=("remark",))


def _shown(offers: dict[str, int]) -> str:
    return ", ".join(f"{count} x {arch}" for arch, count in offers.items()) or "nothing"
