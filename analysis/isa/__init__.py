"""What compilers made of kernels.

claims    registers per provider and architecture
decoding  when decoding ends, against memory and matrix units
diff      what changed between two compiles
"""
