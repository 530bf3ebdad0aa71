"""Where a policy comes from: what every emitted file says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...analysis.frames.load import RunData
from ...shapes.gpu_architectures import architecture
from ...shapes.run_folder.manifest import StoredProvider
from .study import Study


@dataclass(frozen=True, slots=True)
class Provenance:
    """Facts behind one policy.

    sources   hash of the source files of each arm, "" where the run does not say
    weights   how GEMMs were weighed
    regret    mean ln(t_chosen / t_best) in the sample; held_out: the same by hold-out, None where not held out
    """

    policy: str
    run: str
    created_at: str
    device: str
    arch: str
    compute_units: int | None
    cache: str
    gemms: int
    rounds: int
    margin: float
    weights: str
    sources: Mapping[str, str]
    environment: Mapping[str, str]
    regret: float
    held_out: Mapping[str, float | None]

    def lines(self) -> list[str]:
        """Say it in lines for the head of a file; none holds a line break."""
        unseen = [f"{name} {value:.4f}" for name, value in self.held_out.items() if value is not None]
        units = f", {self.compute_units} {architecture(self.arch).units_name}" if self.compute_units else ""
        facts = [
            f"policy {self.policy}, from run {self.run} of {self.created_at}",
            f"device: {self.device} ({self.arch}{units})",
            f"measured: {self.gemms} GEMMs, {self.cache}, {self.rounds} rounds; weights: {self.weights}",
            f"margin: another arm than the incumbent is engaged where its gain is proven to exceed {self.margin:g}",
            f"regret, mean ln(t_chosen / t_best): {self.regret:.4f}"
            + (f"; held out by {', '.join(unseen)}" if unseen else "; nothing could be held out"),
            *(f"source of {name}: {digest or 'unknown'}" for name, digest in self.sources.items()),
            "environment: " + ", ".join(f"{name} {value}" for name, value in self.environment.items()),
        ]
        return [" ".join(line.split()) for line in facts]


_ENVIRONMENT = ("rooflens", "torch", "triton", "driver")


def provenance(run: RunData, study: Study, name: str, weights: str) -> Provenance:
    """Gather it for the policy `name` of a study."""
    scored = study.of(name)
    table = study.timings
    stored = run.manifest.environment
    return Provenance(
        policy=name,
        run=run.id,
        created_at=run.manifest.created_at,
        device=run.device.name,
        arch=study.arch,
        compute_units=run.device.compute_units or None,
        cache=str(table.cases["cache"].iloc[0]),
        gemms=len(table.cases),
        rounds=table.rounds,
        margin=study.margin,
        weights=weights,
        sources={arm: run.manifest.providers.get(arm, StoredProvider()).source for arm in table.arms},
        environment={key: str(stored[key]) for key in _ENVIRONMENT if stored.get(key)},
        regret=_rounded(scored.in_sample.mean),
        held_out={way: _rounded(one.mean) if one else None for way, one in scored.held_out.items()},
    )


def _rounded(value: float) -> float:
    """Six decimals: files of the same numbers are the same on every machine."""
    return float(np.round(value, 6)) + 0.0
