"""A provider whose launch imports the file that $STRAY names, which the start of a worker knows nothing of."""

import importlib.util
import os
import sys

from faulty_providers import Right, right_launch
from rooflens.kernels.provider import Launch


class Late(Right):
    name = "late"

    def candidates(self, problem, scheme, device):
        return [{"n": 0}, {"n": 1}]

    def prepare(self, inputs, config=None):
        run, out = right_launch(inputs)

        def product():
            if "stray" not in sys.modules:
                spec = importlib.util.spec_from_file_location("stray", os.environ["STRAY"])
                sys.modules["stray"] = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(sys.modules["stray"])
            run()

        return Launch(product, out, config=config)


PROVIDERS = [Late()]
