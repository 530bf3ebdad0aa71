"""What this plugin adds to rooflens."""

from ...shapes.plugins import Command, Hook, Plugin

PLUGIN = Plugin(
    commands={
        "fleet": Command(
            "rooflens.plugins.fleet.command:fleet", "Start and list the machines that --address measures on, with Ray."
        )
    },
    hooks={Hook.PLACES: "rooflens.plugins.fleet.command:places"},
)
