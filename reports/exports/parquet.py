"""All cells of a run as one parquet table, those without a time included: what the analysis knows of each."""

import io

from ...analysis.run.pipeline import Analysis
from ...shapes.errors import RooflensError


def content(analysis: Analysis) -> bytes:
    """Write one row per cell; columns as in cells.csv where they are stored, in base units.

    Raises RooflensError where pyarrow is not installed.
    """
    cells = analysis.cells.drop(columns="remarks")  # `note` has them as text
    device = analysis.run.device
    cells = cells.assign(run=analysis.run.id, device=device.name, arch=device.arch)
    written = io.BytesIO()
    try:
        cells.to_parquet(written, engine="pyarrow", index=False)
    except ImportError:
        raise RooflensError("--parquet needs pyarrow: pip install 'rooflens[parquet]'") from None
    return written.getvalue()
