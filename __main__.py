"""`python -m rooflens`, the same as the command `rooflens`."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
