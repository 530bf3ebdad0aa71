"""One candidate of a search on the device: launches of one configuration, checked, and timed in short passes."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from ...shapes.run_folder.disturbance import worst
from ..isolation.process_state import Guarded
from ..telemetry.source import Telemetry
from ..timing.accelerator import Host
from ..timing.measure import measure
from ..timing.samples import Measurement
from ..timing.stop import StopRule
from ..timing.timer import Subject, Timer

TOLERANCE = 1e-2
"""Relative and absolute, of `error_ratio`: that of aiter's errRatio."""


class DeviceTrial:
    """A `search.Trial`: a prepared configuration whose output was found right before it is timed.

    It is launched within `guarded()`. `begin` is called before every pass, `check` after it: it raises where launches
    did less than their work meanwhile. `disturbed` is what disturbed the passes so far, the worst of each kind.
    """

    def __init__(
        self,
        error_ratio: float,
        subject: Subject,
        timer: Timer,
        machine: Host,
        telemetry: Telemetry,
        guarded: Guarded,
        begin: Callable[[], object],
        check: Callable[[Measurement], object],
    ) -> None:
        self._subject, self._timer, self._machine, self._telemetry = subject, timer, machine, telemetry
        self._guarded, self._begin, self._check = guarded, begin, check
        self.disturbed = ""
        self.resolution_s = timer.resolution_s
        self.error_ratio: float | None = error_ratio

    def sample(self, rule: StopRule) -> Sequence[float]:
        """Time launches until `rule` stops; discarded samples are excluded."""
        self._begin()
        rule = replace(rule, resolution_s=self.resolution_s)
        with self._guarded():
            taken = measure(self._subject, self._timer, rule, self._machine, self._telemetry)
            self.disturbed = worst((self.disturbed, taken.disturbed))
            self._check(taken)
        return taken.counting


_CHUNK = 1 << 27
"""Elements compared at a time: a GiB in fp64."""


def error_ratio(output: torch.Tensor, truth: torch.Tensor) -> float:
    """Share of the elements of `output` that are farther than atol + rtol |expected| from what is expected.

    Expected is `truth` (fp64, same shape) rounded to the type of the output. That is in effect what aiter's tuners
    compare with: a product of exactly dequantized operands in fp32, cast to bf16 (its gemm_a8w8_tune.py and
    gemm_a4w4_blockscale_tune.py). A product whose weights stay exact has 0. One whose weights are rounded to the
    activation type before they are multiplied is as correct, but where a sum nearly cancels its error is a large part
    of the little that remains: 0.08 to 0.10 in bf16 and up to 0.006 in fp16 (nf4-g64, K from 512 to 11008).
    """
    close = 0
    for part, exact in zip(output.reshape(-1).split(_CHUNK), truth.reshape(-1).split(_CHUNK), strict=True):
        expected = exact.to(output.device, output.dtype).double()
        close += int(torch.isclose(part.double(), expected, rtol=TOLERANCE, atol=TOLERANCE).sum())
    numel: int = output.numel()
    return 1.0 - close / numel
