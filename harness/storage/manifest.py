"""What run.json says of the device, the software and the code of a run, and that a run does not mix two of any."""

from typing import Any

from ...shapes.errors import UsageError
from ..worker.messages import Ready

DEVICE_FIELDS = (
    "kind",
    "index",
    "name",
    "vendor",
    "arch",
    "compute_units",
    "llc_bytes",
    "l2_bytes",
    "memory_bytes",
    "uuid",
)


def description(ready: Ready) -> dict[str, Any]:
    """What run.json says of the device, its software and the providers."""
    device = ready.device
    return {
        "device": {name: getattr(device, name) for name in DEVICE_FIELDS},
        "device_spec": device.spec.name if device.spec else None,
        "environment": ready.environment,
        "providers": {
            name: {"role": info.role, "source": info.source, "file": info.file}
            for name, info in ready.providers.items()
        },
        "timer": ready.timer,
        "cold_by": ready.cold_by,
        "tuning": ready.tuning,
        "telemetry": ready.telemetry,
        "threads": ready.threads,
    }


def refuse_mixture(manifest: dict[str, Any], found: dict[str, Any]) -> None:
    """One run speaks of one device, one set of versions and one state of the code."""
    for key in ("name", "arch", "uuid", "llc_bytes"):
        _same(f"device {key}", manifest["device"].get(key), found["device"][key])
    for key in ("torch", "triton", "bitsandbytes"):
        _same(key, manifest.get("environment", {}).get(key), found["environment"].get(key))
    for key in ("timer", "cold_by", "tuning", "threads"):
        _same(key, manifest.get(key), found[key])
    providers = manifest.setdefault("providers", {})
    for name, info in found["providers"].items():
        if stored := providers.get(name):
            _same(f"source of provider {name}", stored.get("source"), info["source"])
        else:
            providers[name] = info


def _same(what: str, stored: object, found: object) -> None:
    if stored != found:
        raise UsageError(
            f"cannot resume: {what} was {stored} and is {found} now; timings of the two do not mix: start a new run"
        )
