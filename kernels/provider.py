"""A provider: one way to compute an operation, split into setup (`prepare`) and the only timed call (`Launch`).

To bring a kernel of your own, put this into a file and run `rooflens run SUITE --providers FILE`:

    from rooflens.kernels.provider import Launch, Provider

    class MyGemm(Provider):
        name = "my_gemm"

        def prepare(self, inputs, config=None):
            weight = my_package.pack(inputs.packed, inputs.absmax)          # untimed
            out = inputs.empty_output()
            return Launch(lambda: my_package.gemm(inputs.x, weight, out=out), out)

    PROVIDERS = [MyGemm()]
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ..shapes.device import Device
from ..shapes.errors import RooflensError
from ..shapes.problem import Op, Problem
from ..shapes.scheme import Scheme
from .geometry import Geometry

if TYPE_CHECKING:  # torch takes a second or more to import
    import torch

    from .aot import BuildRequest
    from .inputs import Inputs

Config = Mapping[str, Any]
"""Tile sizes, warps, threads, ...: plain JSON values."""

SchemeT = TypeVar("SchemeT", bound=Scheme)
InputsT = TypeVar("InputsT", bound="Inputs")


class Role(StrEnum):
    """What a provider stands for in a comparison, and with it whether its timed call pays for decoding.

    A REFERENCE multiplies operands that were decoded outside of the timed call (in `prepare`, or when operands were
    overwritten): it says what a layer in 16 bits costs, and nothing is dispatched to it. The launch of any other role
    computes from the operands as the scheme stores them, repacked at most.
    """

    CANDIDATE = "candidate"
    DEQUANT_BLAS = "dequant_blas"
    STOCK_TRITON = "stock_triton"
    REFERENCE = "reference"
    UPSTREAM = "upstream"


@dataclass(frozen=True, slots=True)
class Support:
    """Whether a provider can compute a problem here; `reason` says why not, and how to get it where that can be."""

    ok: bool
    reason: str = ""

    @classmethod
    def yes(cls) -> "Support":
        """Supported."""
        return cls(True)

    @classmethod
    def no(cls, reason: str) -> "Support":
        """Not supported, for `reason`: one line, with the way out where there is one."""
        return cls(False, reason)


class DeclinedError(RooflensError):
    """A library rejects a problem at run time, which no `supports` could foresee."""


@dataclass(slots=True)
class Launch:
    """The timed call: computes into the preallocated `output`; neither allocates device memory nor synchronizes.

    A library that allocates its own result rebinds `output` to it (`returning`): read `launch.output` after the call.

    `output` is a tuple where the operation has several results (data and scales, gradients), in the order of
    `Inputs.empty_outputs`. `config` is what ran, `kernels` the names of the device kernels of one call, `dispatched`
    the choice of a provider with a dispatch rule of its own, `artifact` a hash of the compiled code, `geometry` how the
    main kernel divides the work. All but `run` and `output` may be empty.

    `refresh` updates what a launch finds ready and activations have part in: what a reference decodes ahead, or what
    the forward pass saves. It is called, untimed, after activations have changed, of references and of the providers
    that rooflens ships (`registry.trusted`); any other computes that in `run`.
    """

    run: Callable[[], object]
    output: "torch.Tensor | tuple[torch.Tensor, ...]"
    config: Config = field(default_factory=dict)
    kernels: tuple[str, ...] = ()
    dispatched: str = ""
    artifact: str = ""
    geometry: Geometry | None = None
    refresh: Callable[[], object] | None = None

    @classmethod
    def returning(
        cls,
        call: "Callable[[], torch.Tensor | tuple[torch.Tensor, ...]]",
        output: "torch.Tensor | tuple[torch.Tensor, ...]",
        config: Config | None = None,
        **more: Any,
    ) -> "Launch":
        """Return the launch of a call that allocates its result; `output` replaces it until the first call."""
        launch = cls(call, output, dict(config or {}), **more)

        def run() -> None:
            launch.output = call()

        launch.run = run
        return launch

    def __call__(self) -> None:
        """Run once."""
        self.run()

    @property
    def outputs(self) -> "tuple[torch.Tensor, ...]":
        """All results."""
        # As a tuple stores them: a subclass might compute when it is read.
        return tuple(tuple.__iter__(self.output)) if isinstance(self.output, tuple) else (self.output,)


class Provider(ABC, Generic[SchemeT, InputsT]):
    """One implementation. Subclasses set `name` and `role` and define `prepare`; the rest has defaults.

    A family's providers derive from `Provider[ItsScheme, ItsInputs]` and set `family`, and `op` where the family has
    several operations; for a problem of another family or operation (`support`) they are unsupported without being
    asked.
    """

    name: ClassVar[str]
    role: ClassVar[Role] = Role.CANDIDATE
    """REFERENCE if the launch reads operands decoded outside of it: it then never wins, nor is dispatched to.

    A provider that calls `inputs.dequantized()` in `prepare`, or in its first launch only, is taken for one.
    """
    family: ClassVar[str] = ""
    """Family of schemes that it computes with; "": any, `supports` decides."""
    op: ClassVar[Op | None] = None
    """Operation that it computes; None: any, `supports` decides."""
    sources: ClassVar[tuple[str, ...]] = ()
    """Files beside the module that belong to its source hash (a .cpp or .cu, relative to the module)."""

    def supports(self, problem: Problem, scheme: SchemeT, device: Device) -> Support:
        """Say whether this problem can be computed on this device. Cheap: imports and compiles nothing heavy."""
        return Support.yes()

    def candidates(self, problem: Problem, scheme: SchemeT, device: Device) -> Sequence[Config]:
        """Configurations worth trying, the default first. Empty: there is nothing to choose."""
        return ()

    def default_config(self, inputs: InputsT) -> Config:
        """Return the first of `candidates`."""
        return next(iter(self.candidates(inputs.problem, inputs.scheme, inputs.device)), {})

    @abstractmethod
    def prepare(self, inputs: InputsT, config: Config | None = None) -> Launch:
        """Pack, allocate, compile and warm up; everything that is not the timed call. `config` None: the default.

        The launch must read `inputs.activations` at every call (they change before every timed sample, and the output
        is checked before, while and after it is timed) and write all of its output: tensors as
        `inputs.empty_outputs()` makes them.
        """

    def moved_bytes(self, problem: Problem, scheme: SchemeT, config: Config) -> int | None:
        """Bytes that this algorithm really moves per call (re-reads, intermediates); None when unknown."""
        return None

    def working_set_bytes(self, problem: Problem, scheme: SchemeT, config: Config) -> int:
        """Bytes of distinct memory that one call touches: which cache holds them when nothing is evicted in between.

        The default is right for what reads the operands as they are stored; what keeps a dense copy touches that.
        """
        return scheme.compulsory_bytes(problem)

    def math_dtype(self, problem: Problem, scheme: SchemeT, device: Device) -> str:
        """Type that its matrix units multiply in ("bf16", "fp8", ...): the peak that can bound it."""
        return scheme.math_dtype

    def builds(self, problem: Problem, scheme: SchemeT, device: Device, config: Config) -> "Sequence[BuildRequest]":
        """Kernels that one launch compiles for `device` (which need not be here); empty: none that Triton compiles."""
        return ()


AnyProvider = Provider[Any, Any]


def support(provider: AnyProvider, problem: Problem, scheme: Scheme, device: Device) -> Support:
    """Ask `provider`, unless it is of another family or operation."""
    if provider.family and provider.family != scheme.family:
        return Support.no(f"computes {provider.family} problems; this one is {scheme.family}")
    if isinstance(provider.op, Op) and provider.op != problem.op:  # a provider may have an `op` of its own
        return Support.no(f"computes a {provider.op}; this is a {problem.op}")
    return provider.supports(problem, scheme, device)
