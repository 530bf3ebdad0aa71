"""What the timings mean. Imports neither torch nor triton; only `load` touches files.

The pipeline, each step a function from frames to frames (`pipeline.analyze` runs them all):

 1. `load.load_run`                    a run folder, validated against the schema, as tables and a manifest
 2. `summarize.round_medians`          one median per (cell, round)
 3. `summarize.summarize`              one row per cell: time with interval, rates, accuracy, verdict, what disturbed it
 4. `speedup.speedups`                 time ratios to a baseline, paired by round; `geometric_means`, `best_speedups`
 5. `per_shape.crossovers`             M at which a challenger beats an incumbent, per shape
 6. `across_shapes.median_crossover`   its median over shapes, and the constant threshold with the least regret
 7. `placing.place`                    each cell against the ceilings: bound, bound class, fraction of the bound
 8. `telemetry.conditions`, `canary.drifts_by_device`   what the device reported, and how far it drifted
    `devices.measured_devices`,           of a run of several devices: which one measured what, and
    `device_spread.spreads`               whether they run alike
 9. `headline.headline`                what heads a report: the challenger that wins most, in one cache state

From there to decisions: `gaps.gaps` (what a time is made of) and `refine` (which M to add).

Beside it: `comparison` (two versions of the same kernels) and `imports` (tables of other tools, for `comparison`).
"""
