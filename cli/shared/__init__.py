"""What commands share.

output         JSON for programs
tables         tables on stdout, and configurations that failed in searches
terminal       the only place that prints
runs           what a RUN argument means
options        options that commands share, from what `Request` declares
"""
