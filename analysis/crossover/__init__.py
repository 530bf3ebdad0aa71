"""At which M a kernel pays.

curve          the crossover of one shape
per_shape      of every shape of a run
across_shapes  the median, and the threshold that costs least
refine         which M to measure next
"""
