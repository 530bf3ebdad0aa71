"""What bounds the cells.

roofline   the roofline
gap        where the time goes
ceilings   the limits and their sources
resonance  sizes at which memory stalls
serving    what a serving stack reaches on the same problems
"""
