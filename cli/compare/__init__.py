"""`rooflens compare`.

compare  the command
output   terminal and JSON
"""
