"""What every Python process of a planted node begins with: a device that says other things of itself.

PLANTED_MACHINE   the name of the CPU's architecture
PLANTED_CORES     how many cores there are, whatever a process is confined to
PLANTED_UUID      the UUID of the device
"""

import os
import platform
import sys
from importlib.machinery import PathFinder
from types import SimpleNamespace

if cores := os.environ.get("PLANTED_CORES"):
    os.sched_getaffinity = lambda _: set(range(int(cores)))
    os.sched_setaffinity = lambda _, chosen: None


class Planter:
    """Finds the module that describes devices; nothing else learns of another machine."""

    def find_spec(self, name, path=None, target=None):
        if name != "rooflens.harness.machine.device":
            return None
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def planted(module):
            from dataclasses import replace

            execute(module)
            found, uuid = module._cpu, os.environ.get("PLANTED_UUID", "")
            module.platform = SimpleNamespace(machine=lambda: machine, processor=platform.processor)
            module._cpu = lambda llc: replace(found(llc), uuid=uuid)

        spec.loader.exec_module = planted
        return spec


if machine := os.environ.get("PLANTED_MACHINE"):
    sys.meta_path.insert(0, Planter())
