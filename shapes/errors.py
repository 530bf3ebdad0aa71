"""Errors that know their exit code, each one line: what is wrong, where, and the way out."""

from collections.abc import Sequence


class RooflensError(Exception):
    """Something the user can act on. The command line prints the message as one line and exits with `exit_code`."""

    exit_code = 1

    def saying(self, text: str) -> "RooflensError":
        """Return an error of the same kind with another text; of a class that takes more than a text, of its base."""
        kinds: list[type[RooflensError]] = [kind for kind in type(self).__mro__ if issubclass(kind, RooflensError)]
        return next(kind for kind in kinds if kind.__init__ is RooflensError.__init__)(text)


class UsageError(RooflensError):
    """A wrong name, option or file content: nothing was run."""

    exit_code = 2


class RegressionError(RooflensError):
    """A verified regression (the comparison itself went well)."""

    exit_code = 3


class IncompleteError(RooflensError):
    """Some of the planned work is missing or undecided, and the user asked to be strict about it."""

    exit_code = 4


class CorrectnessError(RooflensError):
    """A provider's output is wrong."""

    exit_code = 5


class Interrupted(RooflensError):
    """The user pressed Ctrl-C (or sent SIGTERM); what was finished is stored."""

    exit_code = 130


QUOTED = 80
"""Characters of a foreign text that a message repeats."""


def quote(value: object) -> str:
    """Return a foreign value as Python writes it, cut in the middle to `QUOTED` characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or nested without end
        return f"a value of type {type(value).__name__}"
    return shorten(text)


def shorten(text: str) -> str:
    """Return a foreign text, a name of a column say, cut in the middle to `QUOTED` characters."""
    return text if len(text) <= QUOTED else f"{text[: QUOTED - 20]}...{text[-17:]}"


LIKENESS = 0.6
"""Share of common characters (difflib's ratio) below which a name is not taken for a slip of the keyboard."""

NEARLY = 0.15
"""Names that are less alike than the best one by more than this are no suggestions beside it."""


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """Return up to three of the `known` names that `name` may have been meant to be, the most likely first."""
    import difflib

    near = difflib.get_close_matches(name, known, n=3, cutoff=LIKENESS)
    likeness = {one: difflib.SequenceMatcher(None, one, name).ratio() for one in near}
    return [one for one in near if likeness[one] >= max(likeness.values()) - NEARLY]


def unknown_name(kind: str, name: str, known: list[str], otherwise: str = "") -> UsageError:
    """Build the error for a name that does not exist, with the nearest ones that do.

    `kind` is the noun shown to the user ("suite", "provider"); `known` are the valid names, and `otherwise` is what to
    say when none of them is near: all of them, unless they are too many for a line.
    """
    near = nearest(name[:QUOTED], known)
    hint = f"did you mean {' or '.join(near)}?" if near else otherwise or f"known: {', '.join(known)}"
    return UsageError(f"unknown {kind} {quote(name)}: {hint}")
