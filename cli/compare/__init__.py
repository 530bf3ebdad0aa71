"""`rooflens compare`.

compare  the command
commits  --git
devices  on one device or many, with progress on stderr
output   terminal, JSON and the exit code
"""
