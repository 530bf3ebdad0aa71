"""What compilers made of kernels.

claims  registers per provider and architecture
diff    what changed between two compiles
"""
