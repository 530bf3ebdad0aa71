"""Functions of which one computes and the others hang in their first call, each in its own way."""

import ctypes
import time

import rooflens
import torch


def computes(x, packed, absmax, code):
    nibbles = torch.stack((packed >> 4, packed & 15), dim=1).view(absmax.numel(), -1)
    return x @ (code[nibbles.int()] * absmax[:, None]).view(-1, x.shape[1]).t()


def sleeps(x, packed, absmax, code):
    time.sleep(100_000)


def spins(x, packed, absmax, code):
    while True:
        pass


def waits(x, packed, absmax, code):
    """Hang in C, and hold the lock of the interpreter."""
    ctypes.PyDLL(None).pause()


HANGING = ("sleeps", "spins", "waits")

PROVIDERS = [rooflens.function(kernel, family="fourbit") for kernel in (computes, sleeps, spins, waits)]
