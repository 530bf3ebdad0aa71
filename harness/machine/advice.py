"""What a survey means for the numbers of a run: one line per finding, from pure rules.

A rule takes a Survey and yields Advice; `advice` runs them all and sorts their findings, the worst first. To add a
rule, write the function in `advice_device` or `advice_host` and name it in RULES.
"""

from collections.abc import Callable, Iterator

from . import advice_device, advice_host
from .advice_values import LEVELS, Advice, ok, problem
from .survey import Survey

Rule = Callable[[Survey], Iterator[Advice]]


def advice(survey: Survey) -> list[Advice]:
    """Apply every rule; the worst come first, and in the order of RULES among equals."""
    found = [one for rule in RULES for one in rule(survey)]
    return sorted(found, key=lambda one: LEVELS.index(one.level))


def can_measure(survey: Survey) -> bool:
    """Return whether at least one provider and one timer can be used on this device."""
    return any(one.available for one in survey.providers) and any(one.available for one in survey.timers)


def providers(survey: Survey) -> Iterator[Advice]:
    """Say how many providers run here; none at all leaves nothing to measure."""
    runs, known = sum(one.available for one in survey.providers), len(survey.providers)
    if not runs:
        text = "no provider can run on this device, so nothing can be measured: see the reasons under providers"
        yield problem("providers", text)
    else:
        yield ok("providers", f"{runs} of {known} providers run here")


RULES: tuple[Rule, ...] = (
    providers,
    advice_device.unused_gpu,
    advice_device.known_device,
    advice_device.telemetry_source,
    advice_device.clocks,
    advice_device.temperature,
    advice_device.power_limit,
    advice_device.neighbours,
    advice_device.partitions,
    advice_host.host_load,
    advice_host.host_limits,
    advice_host.host_clock,
    advice_host.compiler,
    advice_host.triton,
    advice_host.variables,
    advice_host.fleet,
    advice_host.room,
)
