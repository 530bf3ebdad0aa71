"""What this plugin adds to rooflens."""

from ...shapes.plugins import Command, Plugin

PLUGIN = Plugin(
    commands={
        "history": Command(
            "rooflens.plugins.history.command:history",
            "Show the trend of each cell over many runs, and propose where its level changed.",
        )
    },
)
