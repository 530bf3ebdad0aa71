"""What commands share.

output         JSON for programs
tables         tables on stdout
terminal       the only place that prints
progress       progress on stderr
runs           finds stored runs
former         options that a command had once
values         lists, sizes and times as people type them
"""
