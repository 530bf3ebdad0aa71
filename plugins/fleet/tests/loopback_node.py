"""`ray start` that stays on 127.0.0.1: Ray itself would replace that by the address of a network interface."""

import sys

from ray._private import services

services.resolve_ip_for_localhost = lambda host: host

from ray.scripts.scripts import main  # noqa: E402  # it takes the function from above when it is imported

if __name__ == "__main__":
    sys.argv[0] = "ray"
    sys.exit(main())
