"""What this plugin adds to rooflens."""

from ...shapes.plugins import Command, Hook, Plugin

PLUGIN = Plugin(
    commands={
        "fleet": Command(
            "rooflens.plugins.fleet.command:fleet", "Measure SUITE on many devices and machines, placed by Ray."
        )
    },
    hooks={
        Hook.RUN: "rooflens.plugins.fleet.run:run_on_jobs",
        Hook.COMPARE: "rooflens.plugins.fleet.compare:target_of",
    },
)
