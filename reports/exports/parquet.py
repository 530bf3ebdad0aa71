"""All cells of a run as one parquet table, those without a time included: what the analysis knows of each."""

import pandas as pd

from ...analysis.run.pipeline import Analysis
from ...shapes.errors import RooflensError


def content(analysis: Analysis) -> bytes:
    """Write one row per cell; columns as in cells.csv where they are stored, in base units."""
    cells = analysis.cells.drop(columns="remarks")  # `note` has them as text
    device = analysis.run.device
    return as_parquet(cells.assign(run=analysis.run.id, device=device.name, arch=device.arch))


def as_parquet(frame: pd.DataFrame) -> bytes:
    """Write a frame without its index. Raises RooflensError where pyarrow is not installed."""
    try:
        written: bytes = frame.to_parquet(engine="pyarrow", index=False)
    except ImportError:
        raise RooflensError("parquet files need pyarrow: pip install 'rooflens[parquet]'") from None
    return written
