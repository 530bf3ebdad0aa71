"""The chapters on two versions in reading order; one that has nothing to say returns None."""

from collections.abc import Callable

from ....analysis.comparison.result import Result
from ...model import Section
from .cases import cases, choices, outcomes
from .cost import cost, evidence
from .dumbbell import dumbbell
from .losses import losses
from .models import models
from .movers import movers
from .origin import digest, doubts, identity, provenance, reproduce
from .spread import spread
from .suite import headline, suite

CHAPTERS: tuple[Callable[[Result], Section | None], ...] = (
    headline,
    identity,
    suite,
    spread,
    models,
    dumbbell,
    movers,
    losses,
    outcomes,
    choices,
    cost,
    evidence,
    doubts,
    digest,
    reproduce,
    provenance,
    cases,
)
