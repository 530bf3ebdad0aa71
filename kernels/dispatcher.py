"""The base of providers that run another provider of their family, chosen by a rule."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..shapes.device import Device
from ..shapes.errors import RooflensError
from ..shapes.problem import Problem
from .provider import AnyProvider, Config, InputsT, Launch, Provider, SchemeT, Support

if TYPE_CHECKING:
    from .aot import Request


@dataclass(frozen=True, slots=True)
class Choice:
    """The provider that runs, its configuration, and the reason, where there is one to give."""

    provider: AnyProvider
    config: Config
    why: str = ""

    def __str__(self) -> str:
        return f"{self.provider.name}: {self.why}" if self.why else self.provider.name


class Dispatcher(Provider[SchemeT, InputsT]):
    """Runs what `choose` says; `Launch.dispatched` records it."""

    @abstractmethod
    def choose(self, problem: Problem, scheme: SchemeT, device: Device) -> Choice:
        """Decide. Raises RooflensError when no provider takes the problem."""

    @abstractmethod
    def provider_of(self, config: Config) -> AnyProvider:
        """Return the provider that ran with a configuration, or one that moves as many bytes."""

    def supports(self, problem: Problem, scheme: SchemeT, device: Device) -> Support:
        """What the chosen provider supports."""
        try:
            return self.choose(problem, scheme, device).provider.supports(problem, scheme, device)
        except RooflensError as error:
            return Support.no(str(error))

    def prepare(self, inputs: InputsT, config: Config | None = None) -> Launch:
        """Prepare the launch of the chosen provider."""
        choice = self.choose(inputs.problem, inputs.scheme, inputs.device)
        launch = choice.provider.prepare(inputs, config or choice.config)
        launch.dispatched = str(choice)
        return launch

    def moved_bytes(self, problem: Problem, scheme: SchemeT, config: Config) -> int | None:
        """Those of the provider that ran."""
        return self.provider_of(config).moved_bytes(problem, scheme, config)

    def working_set_bytes(self, problem: Problem, scheme: SchemeT, config: Config) -> int:
        """That of the provider that ran."""
        return self.provider_of(config).working_set_bytes(problem, scheme, config)

    def math_dtype(self, problem: Problem, scheme: SchemeT, device: Device) -> str:
        """That of the provider that runs."""
        return self.choose(problem, scheme, device).provider.math_dtype(problem, scheme, device)

    def builds(self, problem: Problem, scheme: SchemeT, device: Device, config: Config) -> "Sequence[Request]":
        """The kernels of the provider that runs."""
        choice = self.choose(problem, scheme, device)
        return choice.provider.builds(problem, scheme, device, config or choice.config)
