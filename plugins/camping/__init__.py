"""Sizes at which memory stalls: outliers among their neighbours, and the periods that they follow.

`find.find` runs everything, from the inside out:

 1. `points`          cells to points along an axis (N, or K), with what the limits of the device expect of them
 2. `quantization`    what waves and tiles cost, where they are stored, and how far a series follows it
 3. `neighbour_test`  the excess of a size over the slower of its two sides, in units of the spread
 4. `sawtooth`        steps of unknown origin, taken out of a scan
 5. `resonance`       the best period of a scan and its p-value; `periods` for all scans, under one false discovery rate
 6. `processes`       in how many worker processes it shows; `padding` a larger size that takes less time
 7. `outliers`        one row per shape, with what was ruled out

`command` is `rooflens camping`, `output` what it prints, `chapter` and `limitations` what reports say of it, `plugin`
what this adds to rooflens.
"""
