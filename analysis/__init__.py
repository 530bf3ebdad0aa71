"""What stored timings mean: estimates, speedups, crossovers, rooflines. DataFrame in, DataFrame out; no torch."""
