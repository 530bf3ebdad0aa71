"""`rooflens isa`.

isa       the command
compile   from a suite to compiled kernels
output    what it prints
"""
