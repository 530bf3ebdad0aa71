"""What device and host report while they work.

source     the source for a device
reading    one reading: clock, temperature, power, slowdowns
nvml       NVIDIA GPUs
amdsmi     AMD GPUs
host       CPUs
linux      cores, load and limits of the host
clock      times that never go back
torch_ids  finds a GPU of torch in NVML or amdsmi
"""
