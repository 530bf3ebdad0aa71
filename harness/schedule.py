"""In which order the arms of a comparison are measured, so that drift hits all of them alike. Pure."""

from collections.abc import Iterator, Sequence


def balanced(arms: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Yield (round, arm): each round has every arm once; every second round goes backwards, then the start moves on.

    Two arms: AB BA AB BA, so that a drift in straight lines cancels over two rounds. More: each arm comes first
    equally often over 2 * len(arms) rounds.
    """
    count = len(arms)
    for number in range(rounds):
        turn = number // 2 % count if count > 2 else 0
        order = [*arms[turn:], *arms[:turn]]
        for arm in reversed(order) if number % 2 else order:
            yield number, arm
