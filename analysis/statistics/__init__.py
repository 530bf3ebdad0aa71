"""Statistics that know nothing of kernels.

arrays         types of arrays, columns as arrays, moments and medians of rows with gaps
moderation     many tests at once: variances of few rounds that borrow from each other, false discovery rate
intervals      95 % intervals of means over few rounds
change_points  where series change their level, and how far runs of the same code scatter
"""
