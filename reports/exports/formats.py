"""The formats that the times of a run are exported in. To add one, write its module and name it in `EXPORTS`."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a help page needs no pandas
    from ...analysis.run.pipeline import Analysis


@dataclass(frozen=True, slots=True)
class Export:
    """A format: `module` of this package has `content(analysis) -> bytes`; `ending` as of a format of reports.

    A `printable` one is text, and may go to stdout.
    """

    module: str
    ending: str = ""
    printable: bool = True

    def content(self, analysis: "Analysis") -> bytes:
        """Write the file. Raises UsageError where the run has no such times, or the format cannot hold them."""
        module = importlib.import_module(f".{self.module}", __package__)
        written: bytes = module.content(analysis)
        return written


EXPORTS = {"aiter": Export("aiter"), "parquet": Export("parquet", ".parquet", printable=False)}
"""By name: `rooflens report -o FORMAT=FILE`."""
