"""What this plugin adds to rooflens."""

from ...shapes.plugins import Command, Hook, Plugin

PLUGIN = Plugin(
    commands={
        "camping": Command(
            "rooflens.plugins.camping.command:camping",
            "Find sizes at which memory stalls, and which padding leaves them.",
        )
    },
    hooks={
        Hook.CHAPTER: "rooflens.plugins.camping.chapter:resonance",
        Hook.LIMITATIONS: "rooflens.plugins.camping.limitations:limitations",
    },
)
