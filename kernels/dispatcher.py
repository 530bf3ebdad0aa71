"""The base of providers that run another provider of their family: by a table of measured choices, else by a rule.

A table is what `rooflens dispatch RUN --emit csv` writes. One per architecture may come with a family, in
`data/dispatch_ARCH.csv`; plugins/dispatch/README.md shows how to dispatch by another.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ..shapes.device import Device
from ..shapes.errors import RooflensError
from ..shapes.problem import Problem
from .dispatch_table import Table, find_row, read_table
from .needs import NOT_ON_CPU
from .provider import AnyProvider, Config, InputsT, Launch, Provider, SchemeT, Support

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .aot import BuildRequest


@dataclass(frozen=True, slots=True)
class DispatchChoice:
    """The provider that runs, its configuration, and the reason, where there is one to give."""

    provider: AnyProvider
    config: Config
    why: str = ""

    def __str__(self) -> str:
        return f"{self.provider.name}: {self.why}" if self.why else self.provider.name


class Dispatcher(Provider[SchemeT, InputsT]):
    """Runs what `choose` says; `Launch.dispatched` records it, and the configuration names it as `route`.

    kernels  providers that may run; the last is the stock kernel, which runs where no other does
    tables   folder of the tables that come with the family
    """

    kernels: ClassVar[tuple[AnyProvider, ...]]
    tables: ClassVar[Path]

    def __init__(self, table: Path | None = None) -> None:
        self._table = table

    @abstractmethod
    def rule(self, problem: Problem, scheme: SchemeT, device: Device) -> tuple[AnyProvider, str]:
        """Decide, with a reason, where the table has no row."""

    def choose(self, problem: Problem, scheme: SchemeT, device: Device) -> DispatchChoice:
        """Decide by the table, else by the rule. Raises RooflensError when no provider takes the problem."""
        stock, config = self.kernels[-1], None
        table = _read(self._table) if self._table else _shipped(self.tables / f"dispatch_{device.arch}.csv")
        row = find_row(table, problem, scheme, device.arch)
        if row is None:
            provider, why = self.rule(problem, scheme, device)
        elif row.M == problem.M:
            provider, why, config = self._named(row.provider), "by its row of the table", row.config
        else:
            provider, why = self._named(row.provider), f"by the row of M={row.M}"
        if provider is not stock and not (support := provider.supports(problem, scheme, device)).ok:
            provider, why, config = stock, support.reason, None
        if not (support := provider.supports(problem, scheme, device)).ok:
            raise RooflensError(f"no kernel takes {problem}: {why}; {stock.name}: {support.reason}")
        return DispatchChoice(provider, config or next(iter(provider.candidates(problem, scheme, device)), {}), why)

    def _named(self, name: str) -> AnyProvider:
        for provider in self.kernels:
            if provider.name == name:
                return provider
        known = ", ".join(provider.name for provider in self.kernels)
        raise RooflensError(f"{self.name}: its table names {name!r}, but only {known} can be dispatched to")

    def supports(self, problem: Problem, scheme: SchemeT, device: Device) -> Support:
        """Whatever one of the kernels takes; otherwise the reasons of all."""
        if not device.is_gpu:
            return Support.no(NOT_ON_CPU)
        try:
            self.choose(problem, scheme, device)
        except RooflensError as error:
            return Support.no(str(error))
        return Support.yes()

    def prepare(self, inputs: InputsT, config: Config | None = None) -> Launch:
        """Prepare the launch of the chosen provider: there is nothing else to choose."""
        choice = self.choose(inputs.problem, inputs.scheme, inputs.device)
        launch = choice.provider.prepare(inputs, choice.config)
        launch.dispatched = str(choice)
        launch.config = {"route": choice.provider.name, **launch.config}
        return launch

    def moved_bytes(self, problem: Problem, scheme: SchemeT, config: Config) -> int | None:
        """Those of the provider that ran."""
        return self._named(config["route"]).moved_bytes(problem, scheme, config)

    def working_set_bytes(self, problem: Problem, scheme: SchemeT, config: Config) -> int:
        """That of the provider that ran."""
        return self._named(config["route"]).working_set_bytes(problem, scheme, config)

    def math_dtype(self, problem: Problem, scheme: SchemeT, device: Device) -> str:
        """That of the provider that runs."""
        return self.choose(problem, scheme, device).provider.math_dtype(problem, scheme, device)

    def builds(self, problem: Problem, scheme: SchemeT, device: Device, config: Config) -> "Sequence[BuildRequest]":
        """The kernels of the provider that runs."""
        choice = self.choose(problem, scheme, device)
        return choice.provider.builds(problem, scheme, device, choice.config)


_read = cache(read_table)


def _shipped(path: Path) -> Table:
    """The table of an architecture, empty where there is none."""
    return _read(path) if path.exists() else {}
