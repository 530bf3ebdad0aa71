"""What commands share.

output         JSON for programs
tables         tables on stdout
terminal       the only place that prints
progress       progress on stderr
runs           finds stored runs
options        options that commands share, from what `Request` declares
stopping       Ctrl-C as a request to stop
former         options that a command had once
"""
