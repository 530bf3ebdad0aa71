"""rooflens: comparative benchmarks of quantized GEMM kernels, with crossovers, rooflines and reports."""

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

__all__ = ["bench", "compare", "function", "load", "measure", "tune"]

if TYPE_CHECKING:
    from .api.comparison import compare
    from .api.measuring import measure
    from .api.stored_run import load
    from .api.timing import bench
    from .api.tuning import tune
    from .kernels.functions import function

_PLACES = {
    "bench": "api.timing",
    "compare": "api.comparison",
    "function": "kernels.functions",
    "load": "api.stored_run",
    "measure": "api.measuring",
    "tune": "api.tuning",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: `import rooflens` alone needs neither torch nor pandas."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_PLACES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
