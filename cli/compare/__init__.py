"""`rooflens compare`.

compare  the command
commits  --git
devices  on one device, with progress on stderr
output   terminal, JSON and the exit code
"""
