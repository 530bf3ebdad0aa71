"""Statistics that know nothing of kernels.

intervals        95 % intervals of means over few rounds
moderation       variances of few rounds, shrunk towards each other
false_discovery  many tests at once
change_points    where series change their level
run_noise        scatter of runs of the same code
"""
