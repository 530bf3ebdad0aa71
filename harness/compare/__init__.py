"""Versions of a repository side by side.

spec          what is compared, in which order, and how far it is
runner        interleaved rounds of all versions
device_runner parts of the suite on several devices
checkouts     the versions on a machine, made once for all who measure there
worktrees     the state of a repository, and a checkout per version
environments  a virtual environment and caches per version; refuses a rooflens that measures otherwise
process       `rooflens run` in one of them
replay        cells to repeat with the configurations of both versions
"""
