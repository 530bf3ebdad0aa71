"""What a RUN argument means."""

from pathlib import Path

from ...api import run_folders
from .tables import note

HTML, MARKDOWN = "report.html", "report.md"
"""Reports in the folder of a run, or of several."""


def find_run(text: str) -> Path:
    """Return the folder of a run; what is odd about it is a note on stderr. Raises UsageError when there is none."""
    return run_folders.find_run(text, tell=note)
