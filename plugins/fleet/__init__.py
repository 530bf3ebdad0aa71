"""Measuring on the devices of this machine, or with Ray of many machines.

engine    what devices measure, and the stores of what they send
run       `rooflens run --jobs` and `--address`
compare   the same for `rooflens compare`
command   `rooflens fleet`
plugin    what this adds to rooflens
"""
