"""Several architectures side by side.

subject     what these chapters share
headline    what they agree on
conditions  how each was measured
grid        grids with a row each
winners     who wins where
crossovers  crossover M
curves      speedup against M
"""
