"""Did the device stay the same?

canary         what the canary says of it
devices        which device measured what
device_spread  whether they agree
timeline       telemetry and canary over time
"""
