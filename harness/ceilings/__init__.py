"""The limits of a device: published, derived or measured.

probe         measures them with the timers that time cells
known_limits  what is published or follows from it: no torch
cpu_peak      the GEMM rate that an x86 CPU cannot exceed
"""
