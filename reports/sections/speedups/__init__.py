"""Who wins, where, by how much.

speedup      grids of speedups
three_way    beside what it replaces and a reference
winners      the fastest provider
maxima       the best ratios
crossover    crossover M
curves       time and speedup against M
cells        what was reached at best, and every cell
flat         every problem on a row
sides        the sides of a comparison
sizes        sizes as columns
"""
