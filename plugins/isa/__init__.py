"""What compilers made of kernels: compiled for GPUs that need not be present, described, and compared.

compiled   builds, and what follows from one: occupancy, instructions per weight, a schedule
decoding   how far cells are above the time that decoding takes
claims     conditions that every row of a table must meet
compile    the kernels of a suite, for each architecture
command    `rooflens isa`; `output`, what it prints
plugin     what this adds to rooflens
"""
