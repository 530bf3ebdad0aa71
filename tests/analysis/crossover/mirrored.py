"""What a result becomes when challenger and incumbent swap their roles."""

from dataclasses import replace

from rooflens.analysis.crossover.curve import CrossoverStatus, Region

STATUS = {status: status for status in CrossoverStatus} | {
    CrossoverStatus.BELOW: CrossoverStatus.ABOVE,
    CrossoverStatus.ABOVE: CrossoverStatus.BELOW,
    CrossoverStatus.AHEAD: CrossoverStatus.BEHIND,
    CrossoverStatus.BEHIND: CrossoverStatus.AHEAD,
}
WINNER = {"challenger": "incumbent", "incumbent": "challenger"}


def regions(found):
    """The same M, won by the other."""
    return tuple(Region(one.first_M, one.last_M, WINNER[one.winner]) for one in found)


def mirrored(crossing):
    """One shape with the roles swapped."""
    return replace(crossing, status=STATUS[crossing.status], regions=regions(crossing.regions))
