"""What device and host report while they work.

source     the source for a device, and finds a GPU of torch in NVML or amdsmi
reading    one reading: clock, temperature, power, slowdowns
nvml       NVIDIA GPUs
amdsmi     AMD GPUs
host       CPUs
linux      cores, load and limits of the host
silence    what libraries print on the way
clock      times that never go back
"""
