"""`python -m rooflens.cli`, the same as the command `rooflens`."""

import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main())
