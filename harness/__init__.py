"""Measuring: plan, worker, timers, cache control, stop rule, store, environment."""
