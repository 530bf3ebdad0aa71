"""The formats that the times of a run are exported in. To add one, write its module and name it in `EXPORTS`."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # an option's help needs no pandas
    from ...analysis.run.pipeline import Analysis


@dataclass(frozen=True, slots=True)
class Export:
    """A format: `module` of this package has `function(analysis) -> bytes`; `what` is the help of its option.

    A `printable` one is text, and may go to stdout.
    """

    module: str
    what: str
    function: str = "content"
    printable: bool = True

    def content(self, analysis: "Analysis") -> bytes:
        """Write the file. Raises UsageError where the run has no such times, or the format cannot hold them."""
        module = importlib.import_module(f".{self.module}", __package__)
        written: bytes = getattr(module, self.function)(analysis)
        return written


EXPORTS = {
    "github_benchmark": Export(
        "github_benchmark", "Times for github-action-benchmark (customSmallerIsBetter).", "times"
    ),
    "github_benchmark_rates": Export(
        "github_benchmark", "TFLOPS for github-action-benchmark (customBiggerIsBetter).", "rates"
    ),
    "bencher": Export("bencher", "Times and rates in Bencher Metric Format."),
    "pytorch_benchmark": Export("pytorch", "Records of PyTorch's benchmark database (v3)."),
    "aiter": Export("aiter", "The fastest provider of each GEMM, as a tuned table of aiter."),
    "parquet": Export("parquet", "All cells as a table; needs pyarrow.", printable=False),
}
"""Name of a format; its option of `rooflens report` is written with dashes."""
