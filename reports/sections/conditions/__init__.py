"""How it was measured.

context         how, where, from which files, and what it cannot say
conditions      how times were taken, telemetry, canary, disturbed cells
configurations  what ran
drift           the device over time
devices         devices side by side
"""
