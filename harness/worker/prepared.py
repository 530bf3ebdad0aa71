"""A provider made ready for a cell: one launch per copy of the operands, and where its configuration comes from."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...kernels.inputs import Inputs, decoded_calls
from ...kernels.provider import AnyProvider, Config, Launch
from ..isolation.faults import ProviderError
from ..timing.accelerator import Host
from .messages import ChosenConfig

MOST_CONFIG = 1 << 14
"""Characters of a configuration as JSON: a field of a table must stay readable."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Launches that differ in nothing but the memory they work on, and the seconds that preparing one of them took.

    `remark` is what a reader of its times should know of how it was prepared; usually nothing. `decoded` says that the
    provider asked its inputs for a decoded operand meanwhile, so that a launch need not decode it; `asked` counts such
    requests of each launch that was checked. `refreshes` update, untimed, what launches find ready; they are read here,
    once, before any launch could set others. `other` is a launch on another weight, until its output was compared.
    """

    launches: tuple[Launch, ...]
    chosen: ChosenConfig
    seconds: float
    remark: str = ""
    decoded: bool = False
    refreshes: tuple[Callable[[], object], ...] = ()
    asked: list[int] = field(default_factory=list)
    other: list[Launch] = field(default_factory=list)

    @property
    def is_reference(self) -> bool:
        """True where not every launch decodes: what the first one has decoded may have been kept."""
        return self.decoded or len({*self.asked}) > 1

    def chosen_as(self, chosen: ChosenConfig) -> "Prepared":
        """Return the same launches for another cell with the same configuration."""
        return replace(self, chosen=chosen)


def prepare(
    provider: AnyProvider,
    copies: Sequence[Inputs],
    chosen: ChosenConfig,
    machine: Host,
    *,
    refreshes: bool = False,
    other: Inputs | None = None,
) -> Prepared:
    """Let `provider` set up a launch on each of `copies`, and wait until that is done.

    `refreshes`: it is among `registry.trusted`; any other could compute its output in `Launch.refresh`. One more launch
    is set up on operands with another weight, between copies: it finds what is kept by shape, by first or last use.
    """
    begin, asked = time.perf_counter(), decoded_calls()
    config = () if chosen.config is None else (chosen.config,)
    sets = [*copies[:1], *([other] if other else []), *copies[1:]]
    launches = [provider.prepare(inputs, *config) for inputs in sets]
    machine.synchronize()
    for launch in launches:
        if type(launch) is not Launch:  # a subclass might compute when its output is read
            raise ProviderError(f"prepare() returned {type(launch).__name__}, not a Launch")
    require_json(launches[0].config)
    seconds = (time.perf_counter() - begin) / len(launches)
    aside = [launches.pop(1)] if other else []
    found = tuple(launch.refresh for launch in launches if launch.refresh) if refreshes else ()
    return Prepared(tuple(launches), chosen, seconds, decoded=decoded_calls() > asked, refreshes=found, other=aside)


def require_json(config: Config) -> None:
    """Raise ProviderError for what cannot be stored."""
    size = 0
    for key, value in dict(config).items():
        try:
            size += len(json.dumps({key: value}))
        except TypeError:
            raise ProviderError(
                f"config[{key!r}] is a {type(value).__module__}.{type(value).__name__}: use plain JSON values"
            ) from None
    if size > MOST_CONFIG:
        raise ProviderError(f"config has {size} characters as JSON, and {MOST_CONFIG} can be stored")


def offered(config: Config | None, candidates: Sequence[Config]) -> Config | None:
    """Return the candidate that is stored as `config`: JSON knows no tuples, say. None when there is none.

    A launch may say more of its configuration than the candidate that it was prepared with: then the only candidate
    whose values it has all is meant. A search may also have joined parts of several candidates (`search`).
    """
    if exact := {_text(candidate): candidate for candidate in candidates}.get(_text(config)):
        return exact
    values = _plain(config)
    within = [candidate for candidate in candidates if candidate and _plain(candidate).items() <= values.items()]
    return within[0] if len(within) == 1 else _joined(values, candidates)


def _joined(values: Mapping[str, str], candidates: Sequence[Config]) -> Config | None:
    """Return the default with parts, which are mappings, of other candidates, where that is what `values` say."""
    found: dict[str, Any] = {}
    for name, own in dict(candidates[0] if candidates else {}).items():
        choices = candidates if isinstance(own, Mapping) else candidates[:1]
        same = [one[name] for one in choices if name in one and _plain({name: one[name]})[name] == values.get(name)]
        if not same:
            return None
        found[name] = same[0]
    return found if any(isinstance(value, Mapping) for value in found.values()) else None


def _plain(config: Config | None) -> dict[str, str]:
    return {name: json.dumps(value, sort_keys=True) for name, value in dict(config or {}).items()}


def _text(config: Config | None) -> str:
    return json.dumps(dict(config or {}), sort_keys=True)
