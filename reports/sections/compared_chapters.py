"""The chapters on two versions in reading order; one that has nothing to say returns None."""

from collections.abc import Callable

from ...analysis.comparison.result import Result
from ..model import Section
from .compared_cases import cases, choices, outcomes
from .compared_cost import cost, evidence
from .compared_losses import losses
from .compared_models import models
from .compared_movers import movers
from .compared_origin import digest, doubts, identity, provenance, reproduce
from .compared_spread import spread
from .compared_suite import headline, suite
from .dumbbell import dumbbell

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
