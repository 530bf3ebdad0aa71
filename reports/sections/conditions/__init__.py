"""How it was measured.

context         how, where, from which files, and what it cannot say
conditions      telemetry, canary, disturbed cells
timing          how times were taken
configurations  both sides of a ratio
drift           the device over time
devices         devices side by side
device_lines    a line per device
"""
