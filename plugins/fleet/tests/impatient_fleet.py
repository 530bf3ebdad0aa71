"""The command line, with little patience with a station that is frozen.

One that starts its worker on a slow machine has all the time that it usually has.
"""

import sys
from pathlib import Path

from rooflens.cli.main import main
from rooflens.plugins.fleet.engine import fleet

frozen, patient = Path("frozen"), fleet.GRACE_S
look, lose = fleet.Fleet._look, fleet.Fleet._lose


def looks(self):
    fleet.GRACE_S = 3.0 if frozen.exists() else patient
    look(self)


def loses(self, slot, reason):
    frozen.unlink(missing_ok=True)
    lose(self, slot, reason)


fleet.Fleet._look, fleet.Fleet._lose = looks, loses
sys.exit(main())
