"""Measuring on many devices and machines, which Ray places.

engine    what devices measure, and the stores of what they send
run       `rooflens run --jobs` and `--address`
compare   the same for `rooflens compare`
progress  what both show meanwhile
command   `rooflens fleet`
plugin    what this adds to rooflens
"""
