"""rooflens: comparative benchmarks of quantized GEMM kernels, with crossovers, rooflines and reports."""

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

__all__ = ["bench", "compare", "do_bench", "function", "load", "measure", "report", "tune"]

if TYPE_CHECKING:
    from .api.bench import bench, do_bench
    from .api.compare.comparing import compare
    from .api.measuring import measure, tune
    from .api.reporting import report
    from .api.stored_run import load
    from .kernels.functions import function

_PLACES = {
    "bench": "api.bench",
    "compare": "api.compare.comparing",
    "do_bench": "api.bench",
    "function": "kernels.functions",
    "load": "api.stored_run",
    "measure": "api.measuring",
    "report": "api.reporting",
    "tune": "api.measuring",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: `import rooflens` alone needs neither torch nor pandas."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_PLACES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
