"""`rooflens tune`.

tune    the command
output  what it prints and exports
"""
