"""What is to be compiled: each kernel, configuration and specialization of some problems, once per architecture."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....kernels.aot import BuildRequest, find_kernel, fingerprint, specialize_request
from ....kernels.provider import AnyProvider, Provider, support
from ....shapes.device import Device, first_spec
from ....shapes.problem import Problem
from ....shapes.scheme import Scheme
from ....shapes.verdict import Verdict


def described_device(arch: str) -> Device:
    """Return a device of one of `aot.KNOWN_ARCHES`: the first of that architecture in the device table.

    Providers choose tiles by its architecture and its number of multiprocessors, which is that of torch on such a
    device. Raises RooflensError for an unknown architecture.
    """
    spec = first_spec(arch)
    return Device(
        kind="cuda",
        index=0,
        name=spec.name,
        vendor=spec.vendor,
        arch=spec.arch,
        compute_units=spec.multiprocessors or 0,
        llc_bytes=spec.last_level_bytes or 0,
        l2_bytes=spec.l2_bytes or 0,
        memory_bytes=spec.memory_bytes or 0,
        spec=spec,
    )


NO_KERNEL = "compiles no Triton kernel for this problem"


@dataclass(frozen=True, slots=True)
class Asked:
    """One problem for one provider, as a suite plans it."""

    provider: AnyProvider
    problem: Problem
    scheme: Scheme


@dataclass(slots=True)
class ScanRow:
    """One row to be: a kernel to compile, or why there is none. `problems` counts those that it stands for.

    The problem is the first one that leads here; `default`: the configuration is the provider's default for it.
    """

    arch: str
    asked: Asked
    config: Mapping[str, Any] = field(default_factory=dict)
    default: bool = True
    request: BuildRequest | None = None
    verdict: Verdict | None = None
    reason: str = ""
    problems: int = 0


def compiles(provider: AnyProvider) -> bool:
    """True for a provider that says which Triton kernels it launches."""
    return type(provider).builds is not Provider.builds


def scan(asked: Iterable[Asked], arches: Iterable[str], defaults_only: bool = False) -> list[ScanRow]:
    """List what to compile, by architecture, then in the order of `asked`.

    A provider's kernel of one configuration that is compiled alike for several problems of a scheme, an operation and a
    pass is one entry. Raises UsageError for an unknown architecture.
    """
    wanted = list(asked)
    entries: list[ScanRow] = []
    for arch in arches:
        device = described_device(arch)
        known: dict[str, ScanRow] = {}
        for one in wanted:
            fresh = list(_entries(one, arch, device, defaults_only))
            for key in dict.fromkeys(key for key, _ in fresh):
                entry = known.setdefault(key, next(entry for other, entry in fresh if other == key))
                entry.problems += 1
        entries += known.values()
    return entries


def _entries(one: Asked, arch: str, device: Any, defaults_only: bool) -> Iterable[tuple[str, ScanRow]]:
    """Yield what one problem leads to on one architecture, with a key that is equal for equal binaries."""
    provider, problem, scheme = one.provider, one.problem, one.scheme
    group = [provider.name, problem.op.value, problem.pass_.value, scheme.name, scheme.dtype.value]
    try:
        supported = support(provider, problem, scheme, device)
        if not supported.ok:
            yield _key(group, supported.reason), _failed(arch, one, Verdict.UNSUPPORTED, supported.reason)
            return
        configs = list(provider.candidates(problem, scheme, device)) or [{}]
        for number, config in enumerate(configs[:1] if defaults_only else configs):
            requests = provider.builds(problem, scheme, device, config)
            if not requests:
                yield _key(group, NO_KERNEL), _failed(arch, one, Verdict.UNSUPPORTED, NO_KERNEL)
            for request in requests:
                key = _key(group, dict(config), request.part, fingerprint(arch, request))
                yield key, ScanRow(arch, one, dict(config), number == 0, request)
    except Exception as error:  # a provider of somebody else; it costs its own rows
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        yield _key(group, reason), _failed(arch, one, Verdict.RUNTIME_ERROR, reason)


def _failed(arch: str, one: Asked, verdict: Verdict, reason: str) -> ScanRow:
    return ScanRow(arch, one, verdict=verdict, reason=reason)


def _key(*parts: Any) -> str:
    return json.dumps(parts, sort_keys=True, default=str)


def specialization(entry: ScanRow) -> dict[str, str]:
    """Describe each runtime argument as the compiler sees it: its type, ":16" where it is a multiple of 16, a constant.

    ":2GiB" marks AMD's pointers to less than that.
    """
    request = entry.request
    assert request is not None
    kernel = find_kernel(request.kernel)
    signature, _, attributes = specialize_request(entry.arch, request)
    described = {}
    for index, parameter in enumerate(kernel.params):
        if parameter.is_constexpr:
            continue
        value = request.arguments[parameter.name]
        names = [name for name, _ in attributes.get((index,), [])]
        marks = [":16"] * ("tt.divisibility" in names) + [":2GiB"] * ("tt.pointer_range" in names)
        kind = signature[parameter.name]
        described[parameter.name] = json.dumps(value) if kind == "constexpr" else kind + "".join(marks)
    return described
