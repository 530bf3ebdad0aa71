"""`rooflens fleet`: measure on many devices and machines."""

import json
from typing import Any

import click

from ..shapes.errors import UsageError
from . import values
from .run import run as run_here

_NOT_HERE = ("device", "scan", "arm", "only", "jobs")
"""Options of `rooflens run` that a fleet has no use for."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def fleet() -> None:
    """Measure SUITE on many devices and machines, placed by Ray.

    It needs the extra fleet: pip install 'rooflens[fleet]'.

    Each problem is measured with all its providers on one device, by the same worker as in rooflens run. Devices are
    found by their architecture, which each node of Ray offers as a resource.

    \b
    Examples:
      ray start --head --resources "$(rooflens fleet resources)"               # on the first machine, HOST
      ray start --address HOST:6379 --resources "$(rooflens fleet resources)"  # on every other one
      rooflens fleet devices                                                   # then on any of them
      rooflens fleet run llm4bit --address auto
    """


def _like_run() -> list[click.Parameter]:
    return [parameter for parameter in run_here.params if parameter.name not in _NOT_HERE]


@fleet.command("run", params=_like_run())
@click.option(
    "--address",
    metavar="auto|HOST:PORT",
    help="The cluster of Ray to measure on: the one of this machine, or by the address of its head. Without it, one "
    "that uses all GPUs of this machine and ends with the sweep.",
)
@click.option(
    "--on",
    multiple=True,
    metavar="ARCH[=N],...",
    help="Measure on these architectures, such as gfx950,sm90=2: each measures everything, on N devices at most. The "
    "default is every GPU of the cluster, or every CPU where there is none.",
)
@click.option(
    "--wait", default="60s", metavar="TIME", help="Wait so long for a device, when none is left; the default is 60s."
)
def run(**options: Any) -> None:
    """Measure SUITE on the devices of a Ray cluster, and bring every sample home.

    A device or machine that is lost costs the problems it was at: another one of its architecture measures them again.
    What came home is in RUN at any time; go on with --resume, on whatever cluster. With several architectures, RUN
    holds a run for each, and the report shows them side by side.

    Exit 4 where problems are left over: no device of their architecture is left, or they ended every one that tried.

    \b
    Examples:
      rooflens fleet run llm4bit
      rooflens fleet run llm4bit --address auto -o runs/all
      rooflens fleet run llm4bit --address 10.0.0.7:6379 --on gfx950,sm90=4
      rooflens fleet run -o runs/all --resume --address auto
    """
    from ..harness.fleet import demand
    from .call import call_of
    from .fleet_folder import stored_run
    from .fleet_run import Where, run_call

    on = demand.parse(options["on"])
    patience_s = values.seconds(options["wait"], "--wait")
    call = call_of({**options, "device": None, "scan": None}, stored_run(options["output"]))
    where = Where(address=options["address"] or "", on=on, patience_s=patience_s)
    run_call(call, where, report=options["report"], strict=options["strict"], dry_run=options["dry_run"])


@fleet.command()
@click.option(
    "--device",
    default="auto",
    metavar="NAME",
    help="cpu or cuda; the default is the GPUs, if there are any.",
)
@click.option("--slots", type=click.IntRange(min=1), default=1, help="Parts to divide a CPU into; the default is 1.")
def resources(device: str, slots: int) -> None:
    """Print what this machine offers a fleet, as JSON for ray start --resources.

    \b
    Examples:
      rooflens fleet resources
      ray start --head --resources "$(rooflens fleet resources)"
      ray start --address HOST:6379 --resources "$(rooflens fleet resources --device cpu --slots 2)"
    """
    from ..harness.fleet.offer import offer

    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device {device!r}: write cpu or cuda; single GPUs are chosen by CUDA_VISIBLE_DEVICES")
    click.echo(json.dumps(offer(device, slots)))


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
    from ..harness.fleet import ray_environment

    ray_environment.for_address(address)
    from ..harness.fleet import ray_cluster
    from .tables import print_table

    with ray_cluster.joined(address) as cluster:
        nodes = cluster.nodes()
    if as_json:
        click.echo(json.dumps(nodes, indent=1))
        return
    rows = [[node["host"], node["address"], _offer(node["offers"]), node["remark"]] for node in nodes]
    print_table(("host", "address", "offers", "remark"), rows, long=("remark",))


def _offer(offers: dict[str, int]) -> str:
    return ", ".join(f"{count} x {arch}" for arch, count in offers.items()) or "nothing"
