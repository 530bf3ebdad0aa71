"""What this plugin adds to rooflens."""

from ...shapes.plugins import Command, Plugin

PLUGIN = Plugin(
    commands={
        "audit": Command(
            "rooflens.plugins.audit.command:audit", "Check a published table for numbers that cannot be right."
        )
    },
)
