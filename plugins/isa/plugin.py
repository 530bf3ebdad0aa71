"""What this plugin adds to rooflens."""

from ...shapes.plugins import Command, Hook, Plugin

PLUGIN = Plugin(
    commands={
        "isa": Command(
            "rooflens.plugins.isa.command:isa",
            "Compile the Triton kernels of SUITE for GPUs that need not be present, and describe the code.",
        )
    },
    hooks={Hook.LAUNCH: "rooflens.plugins.isa.compiled.launched:facts"},
)
