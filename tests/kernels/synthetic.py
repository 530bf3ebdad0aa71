"""Schemes by name, and operands of one."""

from typing import Any

from rooflens.kernels.inputs import make_inputs
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType, Scheme
from rooflens.shapes.schemes import parse_scheme

from .devices import CPU


def scheme_of(name: str, dtype: str = "bf16") -> Scheme:
    return parse_scheme(name, DType(dtype))


def operands(problem: Problem, name: str = "nf4-g64", dtype: str = "bf16", device: Device = CPU, seed: int = 1) -> Any:
    return make_inputs(problem, scheme_of(name, dtype), device, seed)
