"""Did the device stay the same?

canary         what the canary says of it
devices        which device measured what
device_spread  do the devices of a run agree?
timeline       telemetry and canary over time
"""
