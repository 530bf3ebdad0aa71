"""Where rooflens keeps what it can make again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return $ROOFLENS_CACHE, else $XDG_CACHE_HOME/rooflens, else ~/.cache/rooflens."""
    if own := os.environ.get("ROOFLENS_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rooflens"
