"""`rooflens history`.

history   the command
output    what it prints
commands  the command that decides a proposed change
"""
