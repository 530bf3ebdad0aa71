"""How long a scripted kernel takes: autocorrelated noise, two modes and outliers, all from a seed.

The median of one launch is known in closed form, so that a test can ask whether an interval covers it.
"""

import math
import random
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True)
class Latency:
    """The model; a `Sampler` draws from it. Times in seconds.

    base_s       median of one launch of the first mode
    noise        standard deviation of the logarithm (normal, so that the median stays)
    correlation  of the noise from one launch to the next: AR(1) with the same standard deviation; 0 is independent
    second_mode  factor of the second mode; share: of launches in it
    outliers     probability of a launch that takes `1 + Pareto(1.5)` times as long
    """

    base_s: float
    noise: float = 0.0
    correlation: float = 0.0
    second_mode: float = 1.0
    share: float = 0.0
    outliers: float = 0.0
    seed: int = 0

    def true_median_s(self) -> float:
        """Median of the marginal distribution without outliers: the root of a normal mixture."""
        if not self.share or not self.noise:
            return self.base_s * (self.second_mode if self.share > 0.5 else 1.0)
        normal, far = NormalDist(0.0, self.noise), math.log(self.second_mode)
        low, high = sorted((0.0, far))
        for _ in range(100):
            middle = (low + high) / 2
            below = (1 - self.share) * normal.cdf(middle) + self.share * normal.cdf(middle - far)
            low, high = (middle, high) if below < 0.5 else (low, middle)
        return self.base_s * math.exp((low + high) / 2)


class Sampler:
    """Draws the launches of one kernel in order."""

    def __init__(self, latency: Latency) -> None:
        self._latency, self._random = latency, random.Random(latency.seed)
        self._noise = self._random.gauss(0.0, latency.noise) if latency.noise else 0.0
        self._second = self._random.random() < latency.share

    def next_s(self) -> float:
        """Duration of the next launch."""
        model = self._latency
        seconds = model.base_s * math.exp(self._noise) * (model.second_mode if self._second else 1.0)
        if model.outliers and self._random.random() < model.outliers:
            seconds *= 1.0 + self._random.paretovariate(1.5)
        if model.noise:
            fresh = self._random.gauss(0.0, model.noise)
            self._noise = model.correlation * self._noise + math.sqrt(1 - model.correlation**2) * fresh
        if model.share:
            self._second = self._random.random() < model.share
        return seconds
