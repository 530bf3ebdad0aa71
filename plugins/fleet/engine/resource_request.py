"""Which architecture a fleet measures: the request against the offer."""

from collections.abc import Mapping, Sequence

from ....shapes.architectures import is_architecture, is_gpu
from ....shapes.errors import UsageError


def architectures(resources: Mapping[str, float]) -> dict[str, int]:
    """Return the architectures among the resources of a Ray node or cluster, and how many devices of each."""
    return {name: int(amount) for name, amount in sorted(resources.items()) if int(amount) and is_architecture(name)}


def chosen(asked: str, count: int | None, offered: Mapping[str, int], stored: str = "") -> str:
    """Return the architecture to measure, on `count` devices; `stored` is that of a run to resume, "" for none.

    Without a request ("") it is that of the GPUs, or of the CPUs if there are none. Raises UsageError for what is not
    offered, and where several would do.
    """
    if not offered:
        raise UsageError("no node of this Ray cluster offers an architecture: start them with rooflens fleet start")
    if stored and (asked not in ("", stored) or stored not in offered):
        raise UsageError(
            f"cannot resume: the run is of {stored}, and this fleet measures {asked or _listed(offered)}: choose "
            "another -o"
        )
    if asked and offered.get(asked, 0) < (count or 1):
        raise UsageError(
            f"{count or 1} x {asked} is requested, and this cluster offers {_listed(offered)}: start more nodes "
            "with rooflens fleet start --address HOST:PORT"
        )
    if found := asked or stored:
        return found
    kinds = [arch for arch in offered if is_gpu(arch)] or [*offered]
    if len(kinds) > 1:
        calls = " and ".join(f"one with --on {name}" for name in kinds)
        raise UsageError(f"a call measures one architecture: make {calls}, each with its own -o")
    return kinds[0]


def restricted(offer: Mapping[str, Sequence[str]], slots: int | None) -> dict[str, Sequence[str]]:
    """Return `offer` reduced to `slots` devices. Raises UsageError when there are fewer GPUs, or of two kinds."""
    counts = {arch: len(names) for arch, names in offer.items()}
    total = sum(counts.values())
    if slots is None or slots == total:
        return dict(offer)
    if slots > total:
        raise UsageError(f"--jobs local:{slots}: this machine has {_listed(counts)}; request at most {total}")
    if len(offer) > 1:
        raise UsageError(
            f"--jobs local:{slots}: this machine has {_listed(counts)}, and it is ambiguous which to exclude: use all "
            "of them, or set CUDA_VISIBLE_DEVICES (HIP_VISIBLE_DEVICES on AMD)"
        )
    return {arch: names[:slots] for arch, names in offer.items()}


def _listed(offered: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {arch}" for arch, count in offered.items())
