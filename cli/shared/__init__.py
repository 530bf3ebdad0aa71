"""What commands share.

output         JSON for programs
tables         tables on stdout
terminal       the only place that prints
progress       progress on stderr
runs           finds stored runs
values         lists, sizes and times as people type them
"""
