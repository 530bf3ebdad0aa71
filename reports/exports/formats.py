"""The formats that the times of a run are exported in. To add one, write its module and name it in `EXPORTS`."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # an option's help needs no pandas
    from ...analysis.run.pipeline import Analysis


@dataclass(frozen=True, slots=True)
class Export:
    """A format: `module` of this package has `content(analysis) -> bytes`; `what` is the help of its option.

    A `printable` one is text, and may go to stdout.
    """

    module: str
    what: str
    printable: bool = True

    def content(self, analysis: "Analysis") -> bytes:
        """Write the file. Raises UsageError where the run has no such times, or the format cannot hold them."""
        module = importlib.import_module(f".{self.module}", __package__)
        written: bytes = module.content(analysis)
        return written


EXPORTS = {
    "aiter": Export("aiter", "The fastest provider of each GEMM, as a tuned table of aiter."),
    "parquet": Export("parquet", "All cells as a table; needs pyarrow.", printable=False),
}
"""Name of a format; its option of `rooflens report` is written with dashes."""
