"""What this plugin adds to rooflens."""

from ...shapes.plugins import Command, Plugin

PLUGIN = Plugin(
    commands={
        "dispatch": Command(
            "rooflens.plugins.dispatch.command:dispatch",
            "Report which kernel to run for which problem, and what each rule costs.",
        )
    },
)
