"""Providers that ask for decoded weights, before they are timed or in the timed call."""

import torch
from rooflens.kernels.provider import Launch, Provider, Role


class Before(Provider):
    name = "decodes_before"

    def prepare(self, inputs, config=None):
        weight, out = inputs.dequantized(), inputs.empty_output()
        return Launch(lambda: torch.mm(inputs.x, weight.t(), out=out), out)


class Said(Before):
    name = "says_so"
    role = Role.REFERENCE


class Once(Provider):
    name = "decodes_once"

    def prepare(self, inputs, config=None):
        out, kept = inputs.empty_output(), []

        def run():
            kept[:] = kept or [inputs.dequantized()]
            torch.mm(inputs.x, kept[0].t(), out=out)

        return Launch(run, out)


class Inside(Provider):
    name = "decodes_inside"

    def prepare(self, inputs, config=None):
        out = inputs.empty_output()
        return Launch(lambda: torch.mm(inputs.x, inputs.dequantized().t(), out=out), out)


PROVIDERS = [Before(), Said(), Once(), Inside()]
