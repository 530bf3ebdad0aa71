"""Measuring on the devices of many machines, with Ray.

command          `rooflens fleet`, and the devices of --address
ray_cluster      which devices there are, and processes on their machines
ray_host         the actor that starts them there
ray_environment  what is prepared before Ray is imported
numbering        numbers of devices
plugin           what this adds to rooflens
"""
