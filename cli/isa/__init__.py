"""`rooflens isa`.

isa       the command
compile   from a suite to compiled kernels
output    what it prints
markdown  the section for a pull request
"""
