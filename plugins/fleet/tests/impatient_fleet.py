"""The command line, with little patience with a node that does not answer once all have started."""

import sys

from rooflens.cli.main import main
from rooflens.plugins.fleet import ray_environment

joined = ray_environment.for_address


def impatient(address):
    """Ray reads its settings when it is imported: after this."""
    found = joined(address)
    from rooflens.plugins.fleet import ray_cluster

    start = ray_cluster.There.start

    def started(there, *what):
        ray_cluster.SILENT_S = 5.0
        return start(there, *what)

    ray_cluster.There.start = started
    return found


ray_environment.for_address = impatient
sys.exit(main())
