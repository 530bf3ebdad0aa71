"""Which architectures a fleet measures, and on how many devices of each: the request against the offer."""

from collections.abc import Mapping

from ....shapes.architectures import is_architecture, is_gpu
from ....shapes.errors import UsageError


def architectures(resources: Mapping[str, float]) -> dict[str, int]:
    """Return the architectures among the resources of a Ray node or cluster, and how many devices of each."""
    return {name: int(amount) for name, amount in sorted(resources.items()) if int(amount) and is_architecture(name)}


def limits(asked: Mapping[str, int | None], offered: Mapping[str, int]) -> dict[str, int | None]:
    """Return the architectures to measure and the most devices of each. Raises UsageError for what is not offered.

    Without a request, these are all GPUs, or all CPUs if there are none.
    """
    if not offered:
        raise UsageError("no node of this Ray cluster offers an architecture: start them with rooflens fleet start")
    for arch, count in asked.items():
        if offered.get(arch, 0) < (count or 1):
            raise UsageError(
                f"{count or 1} x {arch} is requested, and this cluster offers {_listed(offered)}: start more nodes "
                "with rooflens fleet start --address HOST:PORT"
            )
    if asked:
        return dict(asked)
    return dict.fromkeys([arch for arch in offered if is_gpu(arch)] or offered)


def restricted(offer: Mapping[str, int], slots: int | None) -> dict[str, int]:
    """Return `offer` reduced to `slots`. Raises UsageError when there are fewer GPUs, or of two kinds."""
    total = sum(offer.values())
    if slots is None or slots == total:
        return dict(offer)
    if slots > total:
        raise UsageError(f"--jobs local:{slots}: this machine has {_listed(offer)}; request at most {total}")
    if len(offer) > 1:
        raise UsageError(
            f"--jobs local:{slots}: this machine has {_listed(offer)}, and it is ambiguous which to exclude: use all "
            "of them, or set CUDA_VISIBLE_DEVICES (HIP_VISIBLE_DEVICES on AMD)"
        )
    return dict.fromkeys(offer, slots)


def _listed(offered: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {arch}" for arch, count in offered.items())
