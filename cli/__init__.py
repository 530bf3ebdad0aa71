"""The commands, thin; the only place that knows every layer."""
